import { useLayoutEffect, useState } from "preact/hooks";
import { decider } from "../../app/api";
import { Since } from "../../ui/marks";
import {
  api, can, Code, confirm, Countdown, fmt, Glyph, href, Icon, Problem, seg, setQuery, Status, toast, TraceLink, useKeys, useQuery, useResource,
} from "../../ui";
import { Arguments, Editor, type Draft } from "./args";
import { check, controlOf, parsed, type Schema } from "./schema";
import { objectOf, same, statusOf, titleOf, type Approval, type Input } from "./types";

const settle = 600; // milliseconds that a card is on display before it can be approved

/** Card is one call that waits for a person, with exactly what it would be made with. */
export function Card({ a, count, onDecided, onStale, back }: { a: Approval; count: number; onDecided: (a: Approval) => void; onStale: () => void; back: string }) {
  const [query] = useQuery();
  const open = a.status === "pending";
  const editing = open && query.get("edit") === "1" && can("approve-approval");
  const skill = useResource<{ parameters?: Schema }>(editing ? "/skills/" + seg(a.skillId ?? a.skill) : null);
  const schema = skill.data?.parameters;
  const input = objectOf(a.input);
  const [draft, setDraft] = useState<Draft>({});
  const [whole, setWhole] = useState<string | null>(null); // arguments that are no object, as JSON
  const [refused, setRefused] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const [gone, setGone] = useState("");
  const [settled, setSettled] = useState(false);
  useLayoutEffect(() => { // no click and no key comes between the new call and this
    setSettled(false);
    const timer = setTimeout(() => setSettled(true), settle);
    setDraft({});
    setWhole(null);
    setRefused({});
    setBusy(false);
    return () => clearTimeout(timer);
  }, [a.id, a.inputDigest]);

  const values: Input = { ...input };
  const wrong: Record<string, string> = {};
  for (const [name, text] of Object.entries(draft)) {
    const of = schema?.properties?.[name];
    try {
      const value = parsed(controlOf(of, input?.[name]), text, of, !schema?.required?.includes(name));
      if (value === undefined) delete values[name];
      else values[name] = value;
      const bad = check(of, value);
      if (bad) wrong[name] = bad;
    } catch (e) {
      wrong[name] = (e as Error).message;
    }
  }
  let edited: unknown = values;
  if (whole !== null) {
    try {
      edited = JSON.parse(whole);
    } catch {
      wrong[""] = "This is not JSON.";
    }
  }
  const changed = editing && !same(edited, a.input);

  const edit = (on: boolean): void => {
    if (!on) {
      setDraft({});
      setWhole(null);
      setRefused({});
    }
    setQuery({ edit: on ? "1" : null }, true);
  };
  const approve = async (): Promise<void> => {
    if (busy || !settled || !open || !can("approve-approval")) return;
    const first = Object.keys(wrong)[0];
    if (editing && first !== undefined) {
      document.getElementById("arg-" + first)?.focus();
      return;
    }
    setBusy(true);
    setRefused({});
    try {
      const done = await api.post<Approval>(`/approvals/${seg(a.id)}/approve`, { ...(changed ? { input: edited } : {}), ...(a.inputDigest ? { digest: a.inputDigest } : {}) });
      toast(done.error ? `Approved; the call failed: ${done.error}` : done.status === "executed" ? "Approved. The call was made." : "Approved. The call runs once.");
      onDecided(done);
    } catch (error) {
      setBusy(false);
      const p = error instanceof Problem ? error : null;
      const fields = (p?.body.errors ?? []) as { location: string; message: string }[];
      if (p?.status === 422 && fields.length) {
        const out: Record<string, string> = {};
        for (const f of fields) {
          const name = /^body\.input\.([^.[]+)/.exec(f.location)?.[1] ?? "";
          out[name] = out[name] ? `${out[name]}; ${f.message}` : f.message;
        }
        setRefused(out);
      } else if (p?.code === "decided") {
        setGone(`Somebody was faster: it is ${p.body.presentStatus as string} already.`);
        onStale();
      } else if (p?.code === "digest_changed") {
        setGone("The arguments have changed since this card was shown. Read them again.");
        onStale();
      } else {
        setGone(p?.message ?? String(error));
      }
    }
  };
  const reject = async (): Promise<void> => {
    if (busy || !open || !can("reject-approval")) return;
    const yes = await confirm({ title: `Reject “${titleOf(a)}”?`, effect: "The agent reads your reason and goes on without the call.", action: "Reject", reason: true });
    if (!yes) return;
    setBusy(true);
    try {
      const done = await api.post<Approval>(`/approvals/${seg(a.id)}/reject`, { reason: yes.reason });
      toast("Rejected. The agent reads your reason.");
      onDecided(done);
    } catch (error) {
      setBusy(false);
      setGone(error instanceof Problem ? error.message : String(error));
    }
  };
  // A key may come between the moment that another card is drawn and the moment that its keys are known:
  // what is on display decides.
  const here = (): boolean => document.querySelector<HTMLElement>(".ap")?.dataset.id === a.id;
  useKeys(open ? {
    a: () => { if (here()) void approve(); },
    e: () => { if (can("approve-approval") && here()) edit(!editing); },
    r: () => { if (here()) void reject(); },
  } : {});

  const final = objectOf(a.editedInput);
  return (
    <article class="panel ap" aria-label={titleOf(a)} data-id={a.id}>
      <div class="ap-h">
        <p class="row wrap">
          <a class="hide-d lnk muted" href={back}>← All {count > 0 && count}</a>
          <Status kind="approval" value={statusOf(a)} word={open ? "Waits for " + decider() : undefined} />
          {open ? <span class="muted">for <Since at={a.requestedAt} /></span> : a.decidedAt && <span class="muted">{fmt.time(a.decidedAt)} by {a.decidedBy || "nobody"}</span>}
        </p>
        <h2>{titleOf(a)}</h2>
        <p class="muted">
          {a.agent} asks for <a class="link" href={href("skills/" + seg(a.skill))}><code>{a.skill}</code></a> in <TraceLink id={a.traceId} keep={12} />.
          {open && <> Without an answer it is denied in <Countdown to={a.expiresAt} over="a moment" />.</>}
        </p>
      </div>
      {gone && <p class="ap-note err" role="alert">{gone}</p>}
      {editing && skill.error && <p class="ap-note muted">The skill's parameters could not be read; the server checks the edit.</p>}
      {editing && input && <Editor input={input} schema={schema} draft={draft} set={setDraft} values={values} wrong={{ ...refused, ...wrong }} />}
      {editing && !input && (
        <div class="args"><div><label class="name" for="arg-">input</label><div class="value">
          <textarea id="arg-" class="mono" rows={6} value={whole ?? JSON.stringify(a.input, null, 2)} onInput={(e) => setWhole(e.currentTarget.value)} />
          {wrong[""] && <span class="err" role="alert">{wrong[""]}</span>}
        </div></div></div>
      )}
      {!editing && (input ? <Arguments input={final ?? input} before={final && input} /> : <Code value={a.editedInput ?? a.input} />)}
      {editing && refused[""] && <p class="ap-note err" role="alert">{refused[""]}</p>}
      <ul class="fact">
        {a.why && <li><Glyph tone="person" /><span>{sentence(a.why)}</span></li>}
        {(a.untrusted ?? []).map((u, i) => (
          <li key={i}><Glyph tone="warn" /><span>{u.what === "message" ? "The first message of this run" : <code>{u.what}</code>} brought text from outside{u.where && <> ({u.where})</>}{u.at && <> at {fmt.time(u.at, false)}</>}.</span></li>
        ))}
        <li><Icon name="replay" /><span>{past(a)}</span></li>
        {!open && a.reason && <li><Glyph tone="quiet" /><span>Rejected because: {a.reason}</span></li>}
        {a.error && <li><Glyph tone="failed" /><span>{a.error}</span></li>}
      </ul>
      {a.result !== undefined && a.result !== null && <><h3 class="sec">Result</h3><Code value={a.result} /></>}
      {open && can("approve-approval") && (
        <div class="foot">
          <button type="button" class="btn primary" disabled={busy || !settled || (editing && Object.keys(wrong).length > 0)} aria-busy={busy} aria-keyshortcuts={settled ? "A" : undefined}
            onClick={() => void approve()}>
            {busy ? "The call runs…" : changed ? "Approve as edited" : "Approve"} <kbd aria-hidden="true">A</kbd>
          </button>
          <button type="button" class="btn" disabled={busy} onClick={() => edit(!editing)}>{editing ? "Undo edits" : "Edit"} <kbd aria-hidden="true">E</kbd></button>
          <button type="button" class="btn danger" disabled={busy} onClick={() => void reject()}>Reject <kbd aria-hidden="true">R</kbd></button>
        </div>
      )}
      {open && !can("approve-approval") && <p class="ap-note muted">An admin decides this, in person. You may read it.</p>}
    </article>
  );
}

// past says how the other calls of the skill were decided; while this one waits, all of them are earlier ones.
function past(a: Approval): string {
  const other = a.status === "pending" ? "earlier" : "other";
  const h = a.history;
  const yes = h ? h.approved + h.edited : 0;
  const all = h ? yes + h.rejected : 0;
  if (!h || !all) return `No ${other} call of ${a.skill} was decided.`;
  return `${yes} of ${all} ${other} ${all === 1 ? "call" : "calls"} of ${a.skill} ${yes === 1 ? "was" : "were"} approved${h.edited ? `, ${h.edited} of them after an edit` : ""}.`;
}

const sentence = (text: string): string => text.replace(/^./, (c) => c.toUpperCase()) + (/[.!?]$/.test(text) ? "" : ".");
