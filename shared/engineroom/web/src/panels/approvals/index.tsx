import { useEffect, useRef, useState } from "preact/hooks";
import { usePages } from "../../app/pages";
import { bulk } from "../../ui/bulk";
import { Since } from "../../ui/marks";
import {
  Ago, can, Choose, Clear, Empty, Failed, Filtered, Filters, fmt, Glyph, go, href, Loading, Menu, Outputs, PageHead, seg, Seg, setQuery, Status, toneOf, useKeys, useResource,
} from "../../ui";
import { Card } from "./card";
import { statusOf, titleOf, type Approval } from "./types";
import "./approvals.css";

const decided = ["approved", "executed", "rejected", "expired"];
const events = { kinds: ["approval."] };

export default function Approvals({ id, query }: { id?: string; query: URLSearchParams }) {
  const view = query.get("status") ?? "pending";
  const waiting = view === "pending";
  const filter = { skill: query.get("skill"), agent: query.get("agent") };
  // Decided calls of all kinds are those of the whole list that do not wait.
  const pages = usePages<Approval>("/approvals", { ...filter, status: view === "decided" ? null : view, limit: 100 }, (a) => a.id, events);
  const [done, setDone] = useState<ReadonlySet<string>>(new Set()); // what was decided here
  const items = view === "decided" ? pages.items?.filter((a) => a.status !== "pending") : waiting ? pages.items?.filter((a) => !done.has(a.id)) : pages.items;
  // Without one in the address, the first card stays open when new calls come before it, and when somebody
  // else decides it: what is under the pointer does not change.
  const filters = [view, filter.skill, filter.agent].join();
  const kept = useRef<{ filters: string; id?: string }>({ filters });
  const shown = id ?? (kept.current.filters === filters ? kept.current.id : undefined);
  const listed = items?.find((a) => a.id === shown);
  const single = useResource<Approval>(shown && items && !listed ? "/approvals/" + seg(shown) : null, undefined, events);
  const open = listed ?? (shown ? single.data : items?.[0]);
  if (!pages.loading) kept.current = { filters, id: shown ?? open?.id };

  const to = (a: Approval | undefined): string => {
    const q = new URLSearchParams(query);
    q.delete("edit");
    return href(a ? "approvals/" + seg(a.id) : "approvals", q);
  };
  const step = (by: number) => (): void => {
    if (!items?.length) return;
    const at = items.findIndex((a) => a.id === open?.id);
    go(to(items[Math.max(0, Math.min(items.length - 1, at + by))]), !!id);
  };
  useKeys({ j: step(1), k: step(-1), ...(id ? { Escape: () => go(to(undefined)) } : {}) });
  useEffect(() => {
    if (id) document.querySelector(`.ilist [aria-current]`)?.scrollIntoView({ block: "nearest" });
  }, [id]);

  const onDecided = (a: Approval): void => {
    const rest = items?.filter((x) => x.id !== a.id) ?? [];
    const at = items?.findIndex((x) => x.id === a.id) ?? -1;
    pages.reload();
    single.reload();
    if (!waiting) return;
    setDone((d) => new Set(d).add(a.id));
    kept.current = { filters, id: rest[Math.min(at, rest.length - 1)]?.id };
    go(to(id ? rest[Math.min(at, rest.length - 1)] : undefined), true);
  };
  // The newest calls may all wait: those that are decided come behind them.
  useEffect(() => {
    if (!waiting && !items?.length) pages.more?.();
  }, [waiting, pages.items]);
  const skills = [...new Set((pages.items ?? []).map((a) => a.skill))].sort();
  const agents = [...new Set((pages.items ?? []).map((a) => a.agent))].sort();
  const narrowed = query.has("skill") || query.has("agent");
  const rejectAll = (): void => {
    void bulk({
      resource: "approvals", filter: { status: "pending", skill: filter.skill ?? undefined, agent: filter.agent ?? undefined }, action: "reject", verb: "Reject",
      what: "call", effect: "Each agent reads your reason and goes on without its call.",
    }).then((done) => { if (done) pages.reload(); });
  };

  return (
    <div class="page">
      <PageHead title="Approvals" acts={
        <span class="muted hide-p keys"><kbd>J</kbd> <kbd>K</kbd> next · <kbd>A</kbd> approve · <kbd>E</kbd> edit · <kbd>R</kbd> reject</span>
      }>A call that cannot be undone waits here. It runs once, with exactly what you see.</PageHead>
      <div class={id ? "hide-p" : undefined}>
        <Filters>
          <Seg label="Which" of={[["pending", "Open"], ["decided", "Decided"]]} now={waiting ? "pending" : "decided"}
            onChange={(v) => go(href("approvals", { status: v === "pending" ? null : v, skill: filter.skill, agent: filter.agent }))} />
          {!waiting && <Choose name="status" label="All decided" options={[["decided", "All decided"], ...decided.map((s) => [s, s[0]!.toUpperCase() + s.slice(1)] as const)]} />}
          {(skills.length > 1 || filter.skill) && <Choose name="skill" label="Skill" options={skills.map((s) => [s, s] as const)} />}
          {(agents.length > 1 || filter.agent) && <Choose name="agent" label="Agent" options={agents.map((s) => [s, s] as const)} />}
          <span class="grow" />
          {waiting && (items?.length ?? 0) > 1 && can("bulk-approvals") && <Menu label="With all that match" items={[["Reject all…", rejectAll]]} />}
          <Outputs path="/approvals" params={{ ...filter, status: view === "decided" ? null : view }} />
        </Filters>
      </div>
      {pages.error && !items ? <section class="panel"><Failed error={pages.error} what="Approvals" retry={pages.reload} /></section>
        : !items || (!waiting && !items.length && pages.more) ? <section class="panel"><Loading lines={6} /></section>
          : !items.length && !shown ? <None waiting={waiting} narrowed={narrowed} />
            : (
              <div class="inbox">
                <nav class={"panel ilist" + (id ? " hide-p" : "")} aria-label={waiting ? "Waiting calls" : "Decided calls"}>
                  <div class="ph">{waiting ? "Pending" : "Decided"} <small class="num">{fmt.count(items.length)}{pages.more && "+"}</small></div>
                  {items.map((a) => (
                    <a key={a.id} href={to(a)} aria-current={a.id === open?.id ? "true" : undefined}>
                      <Glyph tone={toneOf("approval", statusOf(a))} />
                      <span><b>{titleOf(a)}</b><small>{a.skill} · {a.agent}{!waiting && <> · <Status kind="approval" value={statusOf(a)} /></>}</small></span>
                      <small class="num">{waiting ? <Since at={a.requestedAt} /> : <Ago at={a.decidedAt ?? a.requestedAt} />}</small>
                    </a>
                  ))}
                  {!items.length && <p class="empty">No other call waits.</p>}
                  {pages.more && <button type="button" class="btn ghost" onClick={pages.more}>More</button>}
                </nav>
                <div class={id ? undefined : "hide-p"}>
                  {open ? <Card key={open.id} a={open} count={items.length} onDecided={onDecided} onStale={() => { pages.reload(); single.reload(); }} back={to(undefined)} />
                    : single.error ? <section class="panel"><Failed error={single.error} what="The call" retry={single.reload} /></section>
                      : <section class="panel"><Loading lines={6} /></section>}
                </div>
              </div>
            )}
    </div>
  );
}

const None = ({ waiting, narrowed }: { waiting: boolean; narrowed: boolean }) => (
  <section class="panel">
    {narrowed ? <Filtered what="call" all="/approvals" keep={{ status: waiting ? "pending" : null }} clear={() => setQuery({ skill: null, agent: null })} />
      : waiting ? <Clear title="Nothing needs you">A call of a skill that needs an approval would wait here until a person decides.</Clear>
        : <Empty title="No call was decided yet">What you approve or reject stays here, with what became of it.</Empty>}
  </section>
);
