import "./console.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { api, can, Problem, send, serverNow } from "../../app/api";
import { href } from "../../app/base";
import { fmt } from "../../app/fmt";
import { useResource } from "../../app/resource";
import { overview } from "../../app/overview";
import { setQuery } from "../../app/router";
import { Glyph } from "../../ui/icon";
import { Since, Status, TraceLink } from "../../ui/marks";
import { toneOf } from "../../ui/status";
import { toast } from "../../ui/toast";
import type { PanelProps } from "../props";

interface Call {
  callId: string;
  skill: string;
  status: string;
  approvalId?: string;
  result?: string;
  began: number;
  ended?: number;
  decided?: string;
}

interface Turn {
  id: number;
  question: string;
  began: number;
  calls: Call[];
  pieces: { id: string; text: string }[];
  answer?: string;
  status?: string;
  reason?: string;
  traceId?: string;
  executionId?: string;
  tokens?: number;
  ended?: number;
  error?: string;
  stopped?: boolean;
}

// The turns outlive the panel: one may look elsewhere while the agent answers.
const turns = signal<Turn[]>([]);
const thread = signal<string | undefined>(undefined);
let count = 0;
let reading: AbortController | null = null;

function change(id: number, by: (t: Turn) => Turn): void {
  turns.value = turns.value.map((t) => (t.id === id ? by(t) : t));
}

// heard applies one event of a turn's stream.
function heard(id: number, event: string, key: string, data: Record<string, unknown>): void {
  const text = (name: string): string | undefined => (typeof data[name] === "string" ? (data[name] as string) : undefined);
  if (event === "delta") change(id, (t) => ({ ...t, pieces: [...t.pieces, { id: key, text: text("text") ?? "" }] }));
  else if (event === "restart") {
    const begins = key.split(".")[0] + ".";
    change(id, (t) => ({ ...t, pieces: t.pieces.filter((p) => !p.id.startsWith(begins)) }));
  } else if (event === "step") {
    const call = data as unknown as Call;
    change(id, (t) => {
      const known = t.calls.find((c) => c.callId === call.callId);
      const ended = call.status === "started" || call.status === "waiting" ? undefined : serverNow();
      return known
        ? { ...t, calls: t.calls.map((c) => (c === known ? { ...c, ...call, ended } : c)) }
        : { ...t, calls: [...t.calls, { ...call, began: serverNow(), ended }] };
    });
  } else if (event === "done") {
    thread.value = text("threadId") ?? thread.value;
    const usage = data.usage as { totalTokens?: number } | undefined;
    change(id, (t) => ({
      ...t, answer: text("answer"), status: text("status"), reason: text("reason"), traceId: text("traceId") ?? t.traceId, executionId: text("executionId"),
      tokens: usage?.totalTokens, ended: serverNow(),
    }));
  }
}

async function say(question: string, multitask?: string): Promise<void> {
  const id = ++count;
  turns.value = [...turns.value, { id, question, began: serverNow(), calls: [], pieces: [] }];
  const stop = (reading = new AbortController());
  try {
    const response = await send("POST", "/operate", {
      body: { message: question, threadId: thread.value, stream: true, multitask }, headers: { Accept: "text/event-stream" }, signal: stop.signal,
    });
    change(id, (t) => ({ ...t, traceId: response.headers.get("X-Trace-Id") ?? undefined }));
    if (!response.headers.get("Content-Type")?.includes("event-stream")) {
      heard(id, "done", "", (await response.json()) as Record<string, unknown>);
      return;
    }
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
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
      }
    }
    change(id, (t) => (t.ended ? t : { ...t, ended: serverNow(), stopped: true }));
  } catch (error) {
    // Without a refusal the turn has begun: a person stopped the reading, or the connection was lost.
    const refused = error instanceof Problem ? error : undefined;
    change(id, (t) => (t.ended ? t : { ...t, ended: serverNow(), error: refused?.message, stopped: !refused, traceId: t.traceId ?? refused?.traceId }));
  } finally {
    if (reading === stop) reading = null;
  }
}

/** ConsolePanel is where one talks with the agent. */
export default function ConsolePanel({ query }: PanelProps) {
  const [text, setText] = useState("");
  const [multitask, setMultitask] = useState("enqueue");
  const body = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const asked = query.get("thread");
  useEffect(() => {
    if (asked && asked !== thread.peek()) {
      thread.value = asked;
      turns.value = [];
    }
  }, [asked]);
  const all = turns.value;
  const runs = all.some((t) => !t.ended);
  useEffect(() => {
    const e = body.current!;
    if (e.scrollHeight - e.scrollTop - e.clientHeight < 240) e.scrollTop = e.scrollHeight;
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
    turns.value = [];
    thread.value = undefined;
    setQuery({ thread: null });
  };
  return (
    <div class="cons" onKeyDown={(e) => { if (e.key === "Escape" && reading) { reading.abort(); toast("The page stopped reading; the turn goes on"); } }}>
      <div class="body" ref={body} tabIndex={0} role="log" aria-label="Conversation" aria-live="off">
        <h1 class={all.length ? "sr" : "hello"}>Console</h1>
        {all.length === 0 && (
          <div class="hint">
            <p>Say what the agent is to do, or ask what it did. It answers here, step by step.</p>
            <ul>{["What have you done today?", "Which tasks wait, and why?", "Remember that reports are due on Mondays."].map((s) => <li key={s}><button type="button" class="f" onClick={() => { setText(s); field.current?.focus(); }}>{s}</button></li>)}</ul>
          </div>
        )}
        {all.map((t) => <TurnView key={t.id} t={t} />)}
        <p class="sr" role="status">{runs ? "The agent works" : all.length ? "The agent has answered" : ""}</p>
      </div>
      {may ? (
        <form class="comp" onSubmit={(e) => { e.preventDefault(); submit(); }}>
          <textarea ref={field} rows={2} value={text} maxLength={16384} placeholder="Message the agent" aria-label="Message"
            onInput={(e) => setText(e.currentTarget.value)}
            onKeyDown={(e) => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); submit(); } }} />
          <div class="row">
            <span class="muted trunc held">{holder ? <><Glyph tone="active" /> <b class="nb">operate</b> is held by {holder.holder.split("/")[0]}{holder.doing ? ": " + holder.doing : ""}</> : "The lane operate is free"}</span>
            <span class="grow" />
            {all.length > 0 && !runs && <button type="button" class="btn sm ghost" onClick={anew}>New thread</button>}
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

const toneOfCall = (c: Call) => (c.status === "waiting" ? "person" : toneOf("step", c.status));

function TurnView({ t }: { t: Turn }) {
  const words = t.answer ?? t.pieces.map((p) => p.text).join("");
  return (
    <article class="turn">
      <h2 class="q">{t.question}</h2>
      <div class="a">
        {t.calls.length > 0 && (
          <ul class="steps">
            {t.calls.map((c) => (
              <li key={c.callId}><Glyph tone={c.decided ? "done" : toneOfCall(c)} /><code>{c.skill}</code>
                <span class="trunc muted">{c.decided ?? (c.status === "waiting" ? "waits for a person" : c.result ?? (c.status === "started" ? "runs" : c.status))}</span>
                <span class="num">
                  {c.status === "waiting" && c.approvalId && !c.decided ? <Decide c={c} turn={t.id} /> : c.ended ? fmt.duration(c.ended - c.began) : <Since at={c.began} />}
                </span>
              </li>
            ))}
          </ul>
        )}
        {(words || !t.ended) && <p class="ans">{words}{!t.ended && <span class="blink" aria-hidden="true">▍</span>}</p>}
        {t.error && <p class="ans err" role="alert">{t.error}</p>}
        {t.reason && t.status !== "completed" && <p class={t.status === "failed" ? "err" : "muted"}>{t.reason}</p>}
        {t.status === "failed" && <Next reason={t.reason ?? ""} />}
        {t.ended && (
          <p class="facts muted end">
            {t.status && t.status !== "completed" && <Status kind="execution" value={t.status} />}
            {t.stopped && <span>the page stopped reading; the turn goes on</span>}
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
  const trace = useResource<{ costUsd: number }>(t.traceId && t.status ? "/traces/" + t.traceId : null);
  return <span class="num">{[t.tokens !== undefined && fmt.tokens(t.tokens) + " tokens", trace.data && fmt.money(trace.data.costUsd * 1e6), t.ended && fmt.duration(t.ended - t.began)].filter(Boolean).join(" · ")}</span>;
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
