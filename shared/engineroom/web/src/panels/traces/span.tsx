import { can, curl, serverNow } from "../../app/api";
import { fmt } from "../../app/fmt";
import { useResource } from "../../app/resource";
import { href } from "../../app/base";
import { Icon } from "../../ui/icon";
import { Chip, Code, Copy, Facts, Status } from "../../ui/marks";
import { Pane } from "../../ui/parts";
import { useState } from "preact/hooks";
import { Loading } from "../../ui/states";
import { fork } from "./actions";
import type { Span } from "./spans";
import type { Message, Step, Trace } from "./types";

const icons = { model: "spark", tool: "tool", lane: "lane", exec: "run", phase: "dot" };

// stepOf is the recorded answer of the model that a model call is, or that asked for a skill's call.
function stepOf(span: Span, steps: Step[]): Step | undefined {
  const id = span.activity?.executionId ?? span.execution?.id;
  const own = steps.filter((s) => s.executionId === id && s.kind === "model");
  if (span.kind === "exec") return own[0];
  const end = span.end ?? span.start;
  if (span.kind === "model") return own.reduce<Step | undefined>((best, s) => (!best || Math.abs(+new Date(s.createdAt) - end) < Math.abs(+new Date(best.createdAt) - end) ? s : best), undefined);
  return own.findLast((s) => +new Date(s.createdAt) <= span.start + 50) ?? own[0];
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

function Said({ messages }: { messages: Message[] }) {
  return (
    <>
      {messages.map((m, i) => (
        <div class="said" key={i}>
          <p class="role">{m.role}</p>
          {m.text && <p class="words">{m.text}</p>}
          {m.calls?.map((c) => <Code key={c.id} value={{ call: c.name, input: parsed(c.arguments) }} />)}
          {m.results?.map((r) => <Code key={r.callId} value={parsed(r.content)} />)}
        </div>
      ))}
    </>
  );
}

const Section = ({ title, value }: { title: string; value: unknown }) => (
  <><div class="sec">{title}<Copy small label="Copy" text={() => (typeof value === "string" ? value : JSON.stringify(value, null, 2))} /></div><Code value={value} /></>
);

/** SpanPane tells all of one span: input, output, words, prompt, tokens, error. */
export function SpanPane({ span, trace, onClose }: { span: Span; trace: Trace; onClose: () => void }) {
  const [prompt, show] = useState(false);
  const whole = useResource<Trace>("/traces/" + trace.traceId, { include: "steps" });
  const steps = whole.data?.steps ?? [];
  const full = whole.data?.activities.find((a) => a.id === span.id) ?? span.activity;
  const step = span.kind === "lane" ? undefined : stepOf(span, steps);
  const own = step && span.kind !== "tool" ? step.messages.filter((m) => m.role === "assistant") : [];
  const calls = own.flatMap((m) => m.calls ?? []);
  const words = own.map((m) => m.text).filter(Boolean).join("\n\n");
  const before = step ? steps.filter((s) => s.executionId === step.executionId && s !== step && (s.step < step.step || (s.step === step.step && s.kind !== "model"))) : [];
  const told = before.flatMap((s) => [...(s.system ? [{ role: "system", text: s.system } as Message] : []), ...s.messages]);
  const execution = span.execution ?? trace.executions.find((e) => e.id === full?.executionId);
  const first = Math.min(...trace.executions.map((e) => +new Date(e.createdAt)), ...trace.activities.map((a) => +new Date(a.startedAt ?? a.createdAt)), span.start);
  const usage = full?.tokenUsage ?? (span.kind === "exec" ? execution?.tokenUsage : undefined);
  const status = full ? <Status kind="activity" value={full.status} /> : span.execution ? <Status kind="execution" value={span.execution.status} /> : <Status kind="lane" value={span.end === null ? "held" : "released"} />;
  const forkable = step && execution && can("fork-trace") && step.step > 0;
  return (
    <Pane label="Span" title={<><Icon name={icons[span.kind]} /> {span.name}</>} status={status} onClose={onClose}
      foot={span.kind === "lane" ? <a class="btn" href={href("lanes/" + encodeURIComponent(span.hold!.lane))}>Lane</a> : <>
        {forkable && <button type="button" class="btn" onClick={() => void fork(trace.traceId, execution.id, step.step)}><Icon name="fork" />Fork from here</button>}
        <Copy label="Copy as curl" said="Copied as curl" text={() => curl("/traces/" + trace.traceId, { include: "steps" })} />
      </>}>
      <Facts of={[
        ["Started", <><span title={fmt.full(span.start)}>{fmt.clock(span.start)}</span> <span class="muted">(+{fmt.duration(span.start - first)})</span></>],
        [span.end === null ? "Lasts" : "Took", fmt.duration((span.end ?? serverNow()) - span.start)],
        ["Step", step && execution ? <>{step.step} of execution <span class="mono" title={execution.id}>…{execution.id.slice(-6)}</span></> : null],
        ["Agent", full?.agent ?? span.execution?.agent ?? null],
        ["Model", full?.model ?? null],
        ["Tokens", usage ? <>{fmt.tokens(usage.promptTokens)} in · {fmt.tokens(usage.completionTokens)} out</> : null],
        ["Cost", span.cost ? fmt.money(span.cost) : null],
        ["Lane", span.hold ? <span class="mono">{span.hold.lane}</span> : span.execution?.subject ? <a class="mono link" href={href("lanes/" + encodeURIComponent(span.execution.subject))}>{fmt.short(span.execution.subject, 30)}</a> : null],
        ["Fence", span.hold?.fence ?? null],
        ["Attempt", (span.execution && span.execution.attempt > 1 ? span.execution.attempt : null)],
      ]} />
      {(full?.errorMessage || span.execution?.errorMessage) && <p class="callout failed in">{full?.errorMessage ?? span.execution?.errorMessage}</p>}
      {whole.loading && !whole.data && <Loading lines={3} />}
      {calls.length > 0 && <Section title={`Asked for ${fmt.plural(calls.length, "call")}`} value={calls.map((c) => ({ call: c.name, input: parsed(c.arguments) }))} />}
      {words && <><div class="sec">{calls.length ? "Words between the calls" : "Answer"}</div><p class="words">{words}</p></>}
      {span.kind !== "model" && full?.input !== undefined && <Section title="Input" value={full.input} />}
      {full?.output !== undefined && span.kind !== "model" && <Section title="Output" value={full.output} />}
      {span.kind === "exec" && span.execution?.input !== undefined && <Section title="Input" value={span.execution.input} />}
      {span.kind === "exec" && span.execution?.result !== undefined && <Section title="Result" value={span.execution.result} />}
      {(span.kind === "model" || span.kind === "exec") && told.length > 0 && (
        <><div class="sec">Prompt<Chip>{fmt.plural(told.length, "message")}</Chip><button type="button" class="btn sm ghost" aria-expanded={prompt} onClick={() => show(!prompt)}>{prompt ? "Hide" : "Show"}</button></div>
          {prompt && <Said messages={told} />}</>
      )}
    </Pane>
  );
}
