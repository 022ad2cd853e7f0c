import "./console.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { api, can, Problem, send, serverNow } from "../../app/api";
import { href, seg } from "../../app/base";
import { fmt } from "../../app/fmt";
import { useResource } from "../../app/resource";
import { overview } from "../../app/overview";
import { setQuery } from "../../app/router";
import { Glyph } from "../../ui/icon";
import { Since, Status, TraceLink } from "../../ui/marks";
import { Shown } from "../../ui/states";
import { toneOf } from "../../ui/status";
import { toast } from "../../ui/toast";
import type { PanelProps } from "../props";
import { type Message, messagesOf } from "../threads/thread";

interface Call {
  callId: string;
  skill: string;
  status: string;
  approvalId?: string;
  result?: string;
  began?: number; // unknown of a call that is read from the history
  ended?: number;
  decided?: string;
}

interface Turn {
  id: number;
  run?: string; // its execution, or the message that has none; not known before the server has stored it
  question: string;
  began: number;
  calls: Call[];
  pieces: { id: string; text: string }[];
  last?: string; // the id of the last event
  past?: boolean; // it is read from the history
  said?: number; // when its answer of the history was written
  unread?: boolean; // nobody reads its events now
  answer?: string;
  status?: string;
  reason?: string;
  traceId?: string;
  tokens?: number;
  ended?: number;
  error?: string;
}

const mostRead = 10; // turns of the history whose steps are read
const again = 2000; // milliseconds between two tries to read on

// The turns outlive the panel: one may look elsewhere while the agent answers.
const turns = signal<Turn[]>([]);
const thread = signal<string | undefined>(undefined);
let count = 0;
let sent: Promise<unknown> = Promise.resolve(); // settles when the thread of the last message is known
const reading = new Map<number, AbortController>();
const changed = new Set<number>(); // turns that are read while something has happened in them

const find = (id: number): Turn | undefined => turns.peek().find((t) => t.id === id);

function change(id: number, by: (t: Turn) => Turn): void {
  turns.value = turns.value.map((t) => (t.id === id ? by(t) : t));
}

function stopReading(): void {
  for (const stop of reading.values()) stop.abort();
  reading.clear();
}

// show empties the page for a thread; undefined is one that the next message begins.
function show(of: string | undefined): void {
  stopReading();
  turns.value = [];
  thread.value = of;
}

// heard applies one event of a turn's stream.
function heard(id: number, event: string, key: string, data: Record<string, unknown>): void {
  const text = (name: string): string | undefined => (typeof data[name] === "string" ? (data[name] as string) : undefined);
  const runs = { last: key, status: undefined, reason: undefined, answer: undefined };
  if (event === "delta") change(id, (t) => ({ ...t, ...runs, pieces: [...t.pieces, { id: key, text: text("text") ?? "" }] }));
  else if (event === "restart") {
    const begins = key.split(".")[0] + ".";
    change(id, (t) => ({ ...t, ...runs, pieces: t.pieces.filter((p) => !p.id.startsWith(begins)) }));
  } else if (event === "step") {
    const call = data as unknown as Call;
    change(id, (t) => {
      const known = t.calls.find((c) => c.callId === call.callId);
      const at = t.past ? undefined : serverNow();
      const ended = call.status === "started" || call.status === "waiting" ? undefined : at;
      const calls = known ? t.calls.map((c) => (c === known ? { ...c, ...call, ended } : c)) : [...t.calls, { ...call, began: at, ended }];
      return { ...t, ...runs, calls };
    });
  } else if (event === "done") {
    const usage = data.usage as { totalTokens?: number } | undefined;
    const status = text("status");
    const over = status !== "waiting" && status !== "parked";
    change(id, (t) => ({
      ...t, last: key || t.last, status, reason: text("reason"), answer: text("answer") || (status === "completed" ? t.answer : undefined),
      traceId: text("traceId") ?? t.traceId, tokens: usage?.totalTokens, ended: over ? t.said ?? serverNow() : undefined, said: undefined,
    }));
  }
}

// hear applies the events of a response until it ends, and reports whether the turn has ended or waits.
async function hear(id: number, response: Response, stop: AbortSignal): Promise<boolean> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  stop.addEventListener("abort", () => void reader.cancel());
  let buffer = "";
  for (let over = false; ;) {
    const { value, done } = await reader.read();
    if (done) return over;
    buffer += value;
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop()!;
    for (const block of blocks) {
      let key = "", event = "", data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) key = line.slice(4);
        else if (line.startsWith("event: ")) event = line.slice(7);
        else if (line.startsWith("data: ")) data = line.slice(6);
      }
      if (event && data) heard(id, event, key, JSON.parse(data) as Record<string, unknown>);
      over ||= event === "done";
    }
  }
}

// read reads the events of a turn, from its first response on if there is one, until the turn has ended or waits, or a
// person stops the reading. A connection that is lost is made anew.
async function read(id: number, first?: Response): Promise<void> {
  if (reading.has(id)) {
    changed.add(id);
    return;
  }
  const stop = new AbortController();
  reading.set(id, stop);
  for (let response = first; !stop.signal.aborted; response = undefined) {
    const t = find(id);
    if (!t?.run || t.ended) break;
    try {
      response ??= await send("GET", `/executions/${seg(t.run)}/events`, {
        headers: { Accept: "text/event-stream", ...(t.last && { "Last-Event-ID": t.last }) }, signal: stop.signal,
      });
      change(id, (t) => ({ ...t, unread: false }));
      if (await hear(id, response, stop.signal)) {
        if (changed.delete(id)) continue;
        break;
      }
    } catch (error) {
      const refused = error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429 ? error : undefined;
      if (refused) change(id, (t) => ({ ...t, ended: serverNow(), error: refused.message }));
    }
    change(id, (t) => ({ ...t, unread: true }));
    if (!stop.signal.aborted) await new Promise((done) => setTimeout(done, again));
  }
  if (reading.get(id) === stop) reading.delete(id);
}

async function say(question: string, multitask?: string): Promise<void> {
  const id = ++count;
  const begins = thread.peek();
  turns.value = [...turns.value, { id, question, began: serverNow(), calls: [], pieces: [] }];
  const before = sent;
  let known = (): void => {};
  sent = new Promise<void>((done) => { known = done; });
  await before;
  try {
    const response = await send("POST", "/operate", {
      body: { message: question, threadId: begins ?? (find(id) && thread.peek()), stream: true, multitask },
      headers: { Accept: "text/event-stream" },
    });
    const named = (name: string): string | undefined => response.headers.get(name) ?? undefined;
    if (find(id)) thread.value ??= named("X-Thread-Id");
    change(id, (t) => ({ ...t, run: named("X-Execution-Id"), traceId: named("X-Trace-Id") }));
    known();
    await read(id, response);
  } catch (error) {
    const p = error instanceof Problem ? error : undefined;
    change(id, (t) => ({ ...t, ended: serverNow(), error: p?.message ?? String(error), traceId: p?.traceId }));
  } finally {
    known();
  }
}

// turnsOf groups the messages of a thread by what they belong to. Of the last ones the events tell how they ended.
function turnsOf(messages: Message[]): Turn[] {
  const all = new Map<string, Turn>();
  for (const m of messages) {
    const run = m.executionId || m.id;
    const at = +new Date(m.createdAt);
    const t = all.get(run) ?? { id: ++count, run, question: "", began: at, calls: [], pieces: [], past: true };
    const joined = (text: string | undefined): string => (text ? text + "\n\n" : "") + m.body;
    const text = m.role === "user" ? { question: joined(t.question) } : { answer: joined(t.answer), said: at };
    all.set(run, { ...t, ...text, ended: m.executionId ? undefined : at });
  }
  const list = [...all.values()];
  return list.map((t, i) => (i < list.length - mostRead ? { ...t, ended: t.said ?? t.began } : t));
}

// merge adds the turns of a thread that are not on display, and reads on in those that have not ended.
async function merge(of: string, messages: Message[]): Promise<void> {
  await sent;
  if (thread.peek() !== of) return;
  const known = new Set(turns.peek().map((t) => t.run));
  const added = turnsOf(messages).filter((t) => !known.has(t.run));
  if (added.length) turns.value = [...turns.peek(), ...added].sort((a, b) => a.began - b.began);
  for (const t of turns.peek()) if (!t.ended) void read(t.id);
}

/** ConsolePanel is where one talks with the agent. */
export default function ConsolePanel({ query }: PanelProps) {
  const [text, setText] = useState("");
  const [multitask, setMultitask] = useState("enqueue");
  const body = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const asked = query.get("thread");
  const at = thread.value;
  useEffect(() => {
    if (asked && asked !== thread.peek()) show(asked);
    else if (!asked && thread.peek()) setQuery({ thread: thread.peek() }, true);
  }, [asked, at]);
  const spoken = useResource<{ messages: Message[] }>(at ? `/threads/${seg(at)}/messages` : null, undefined, {
    kinds: ["message.", "execution."], read: messagesOf,
    only: (e) => e.data.threadId === at || turns.peek().some((t) => t.run === e.subject),
  });
  useEffect(() => {
    if (spoken.data) void merge(at!, spoken.data.messages);
  }, [spoken.data]);
  const all = turns.value;
  const runs = all.some((t) => !t.ended && t.status !== "waiting");
  const state = runs ? "The agent works" : all.some((t) => !t.ended) ? "The agent waits for a person" : all.length ? "The agent has answered" : "";
  const shown = useRef<string | undefined>(undefined); // the thread whose end has been scrolled to
  useEffect(() => {
    const e = body.current!;
    const opened = all.length > 0 && shown.current !== at;
    if (opened) shown.current = at;
    if (opened || e.scrollHeight - e.scrollTop - e.clientHeight < 240) e.scrollTop = e.scrollHeight;
  }, [all]);
  const may = can("operate"); // not known yet when the page begins with this panel
  useEffect(() => field.current?.focus(), [may]);
  const holder = overview.value?.lanes.find((l) => l.lane === "operate");
  const submit = (): void => {
    const said = text.trim();
    if (!said) return;
    setText("");
    void say(said, runs || holder ? multitask : undefined);
    requestAnimationFrame(() => { body.current!.scrollTop = body.current!.scrollHeight; });
  };
  const anew = (): void => {
    show(undefined);
    setQuery({ thread: null });
  };
  return (
    <div class="cons" onKeyDown={(e) => { if (e.key === "Escape" && reading.size) { stopReading(); toast("The page stopped reading; the turn goes on"); } }}>
      <div class="body" ref={body} tabIndex={0} role="log" aria-label="Conversation" aria-live="off">
        <h1 class={all.length ? "sr" : "hello"}>Console</h1>
        {all.length === 0 && at && <Shown of={spoken} what="The conversation">{() => null}</Shown>}
        {all.length === 0 && (!at || spoken.data) && (
          <div class="hint">
            <p>Say what the agent is to do, or ask what it did. It answers here, step by step.</p>
            <ul>{["What have you done today?", "Which tasks wait, and why?", "Remember that reports are due on Mondays."].map((s) => <li key={s}><button type="button" class="f" onClick={() => { setText(s); field.current?.focus(); }}>{s}</button></li>)}</ul>
          </div>
        )}
        {all.map((t) => <TurnView key={t.id} t={t} />)}
        <p class="sr" role="status">{state}</p>
      </div>
      {may && all.length === 0 && at && spoken.error ? null : may ? (
        <form class="comp" onSubmit={(e) => { e.preventDefault(); submit(); }}>
          <textarea ref={field} rows={2} value={text} maxLength={16384} placeholder="Message the agent" aria-label="Message"
            onInput={(e) => setText(e.currentTarget.value)}
            onKeyDown={(e) => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); submit(); } }} />
          <div class="row">
            <span class="muted trunc held">{holder ? <><Glyph tone="active" /> <b class="nb">operate</b> is held by {holder.holder.split("/")[0]}{holder.doing ? ": " + holder.doing : ""}</> : "The lane operate is free"}</span>
            <span class="grow" />
            {at && <button type="button" class="btn sm ghost" onClick={anew}>New thread</button>}
            {(runs || holder) && (
              <label class="f choose on"><span class="sr">While a turn runs</span>
                <select value={multitask} onChange={(e) => setMultitask(e.currentTarget.value)}>
                  <option value="enqueue">Queue</option><option value="interrupt">Interrupt</option><option value="rollback">Roll back</option>
                </select>
              </label>
            )}
            <button type="submit" class="btn primary" disabled={!text.trim()}>Send <kbd>⏎</kbd></button>
          </div>
        </form>
      ) : <p class="comp none muted">A member of the workspace can talk with the agent here.</p>}
    </div>
  );
}

function TurnView({ t }: { t: Turn }) {
  const words = t.answer ?? t.pieces.map((p) => p.text).join("");
  const runs = !t.ended && t.status !== "waiting";
  return (
    <article class="turn">
      {t.question && <h2 class="q">{t.question}</h2>}
      <div class="a">
        {t.calls.length > 0 && (
          <ul class="steps">
            {t.calls.map((c) => <CallView key={c.callId} c={c} t={t} />)}
          </ul>
        )}
        {(words || runs) && <p class="ans">{words}{runs && <span class="blink" aria-hidden="true">▍</span>}</p>}
        {t.error && <p class="ans err" role="alert">{t.error}</p>}
        {t.reason && t.status !== "completed" && <p class={t.status === "failed" ? "err" : "muted"}>{t.reason}</p>}
        {t.status === "failed" && <Next reason={t.reason ?? ""} />}
        {(t.ended || t.status || t.unread) && (
          <p class="facts muted end">
            {t.status && t.status !== "completed" && <Status kind="execution" value={t.status} />}
            {t.unread && !t.ended && <span>the page does not read now; the turn goes on</span>}
            <Cost t={t} /><TraceLink id={t.traceId} keep={12} />
          </p>
        )}
      </div>
    </article>
  );
}

// Next says what to do about a turn that failed, where that is known.
const Next = ({ reason }: { reason: string }) =>
  reason.includes("the model failed") ? <p class="muted"><code>bin/lanekeeper doctor</code> says why, and what to do. Then say it again.</p>
    : reason.includes("kill switch") ? <p class="muted">Nothing runs until a person releases the switch. Then say it again.</p> : null;

// Cost reads what the turn has cost, once, from its trace.
function Cost({ t }: { t: Turn }) {
  const trace = useResource<{ costUsd: number }>(t.traceId && t.status && t.ended ? "/traces/" + t.traceId : null);
  return <span class="num">{[t.tokens !== undefined && fmt.tokens(t.tokens) + " tokens", trace.data && fmt.money(trace.data.costUsd * 1e6), t.ended && fmt.duration(t.ended - t.began)].filter(Boolean).join(" · ")}</span>;
}

function CallView({ c, t }: { c: Call; t: Turn }) {
  const asked = c.status === "waiting";
  const approval = useResource<{ status: string }>(asked && c.approvalId ? "/approvals/" + seg(c.approvalId) : null, undefined, {
    kinds: ["approval."], only: (e) => e.subject === c.approvalId,
  });
  const status = approval.data?.status;
  const decided = c.decided ?? (status === "executed" ? "approved" : status === "pending" ? undefined : status);
  const waits = asked && !decided && !t.ended;
  const gist = waits ? "waits for a person" : asked ? decided ?? "waits no more" : c.result ?? (c.status === "started" ? "runs" : c.status);
  const took = c.began && (c.ended ? fmt.duration(c.ended - c.began) : !t.ended && <Since at={c.began} />);
  return (
    <li><Glyph tone={waits ? "person" : asked ? "done" : toneOf("step", c.status)} /><code>{c.skill}</code>
      <span class="trunc muted">{gist}</span>
      <span class="num">{waits && c.approvalId ? <Decide c={c} turn={t.id} /> : took}</span>
    </li>
  );
}

function Decide({ c, turn }: { c: Call; turn: number }) {
  const approve = async (): Promise<void> => {
    try {
      const asked = await api.get<{ inputDigest?: string }>("/approvals/" + c.approvalId);
      await api.post(`/approvals/${c.approvalId}/approve`, asked.inputDigest ? { digest: asked.inputDigest } : {});
      change(turn, (t) => ({ ...t, calls: t.calls.map((x) => (x.callId === c.callId ? { ...x, decided: "approved; the call runs once" } : x)) }));
      toast("Approved. The call runs once.");
    } catch (error) {
      toast(error instanceof Problem ? error.message : "That did not work");
    }
  };
  return <>{can("approve-approval") && <button type="button" class="btn sm" onClick={() => void approve()}>Approve</button>} <a class="btn sm ghost" href={href("approvals/" + c.approvalId)}>Review</a></>;
}
