import { href } from "../../app/base";
import { fmt } from "../../app/fmt";
import { useResource } from "../../app/resource";
import { costOf } from "../../ui/activity";
import { Status, TraceLink } from "../../ui/marks";
import { PageHead, Panel } from "../../ui/parts";
import { Shown } from "../../ui/states";
import { type Span, spansOf } from "./spans";
import { titleOf } from "./trace";
import type { Trace } from "./types";

// paired aligns the steps of two runs by their names: the longest common sequence.
function paired(a: Span[], b: Span[]): [Span | null, Span | null][] {
  const n = Math.min(a.length, 400), m = Math.min(b.length, 400);
  const best = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) for (let j = m - 1; j >= 0; j--) {
    best[i]![j] = a[i]!.name === b[j]!.name ? best[i + 1]![j + 1]! + 1 : Math.max(best[i + 1]![j]!, best[i]![j + 1]!);
  }
  const rows: [Span | null, Span | null][] = [];
  let i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[i]!.name === b[j]!.name) rows.push([a[i++]!, b[j++]!]);
    else if (j >= m || (i < n && best[i + 1]![j]! >= best[i]![j + 1]!)) rows.push([a[i++]!, null]);
    else rows.push([null, b[j++]!]);
  }
  return rows;
}

const steps = (t: Trace): Span[] => spansOf(t).filter((s) => s.kind === "model" || s.kind === "tool" || s.kind === "exec");

/** ComparePage shows two traces beside each other, step by step. */
export function ComparePage({ a, b }: { a: string; b: string }) {
  const one = useResource<Trace>("/traces/" + encodeURIComponent(a));
  const two = useResource<Trace>("/traces/" + encodeURIComponent(b));
  return (
    <div class="page grid">
      <PageHead title="Two traces compared" crumb={<a class="lnk" href={href("traces")}>Traces</a>}>Steps with the same name stand in one row.</PageHead>
      <Shown of={one} what="The first trace">{(x) => <Shown of={two} what="The second trace">{(y) => <Both a={x} b={y} />}</Shown>}</Shown>
    </div>
  );
}

function Both({ a, b }: { a: Trace; b: Trace }) {
  const rows = paired(steps(a), steps(b));
  const facts: [string, (t: Trace) => string][] = [
    ["Took", (t) => fmt.duration(t.durationMs)], ["Executions", (t) => fmt.count(t.executions.length)], ["Tokens", (t) => fmt.tokens(t.usage.totalTokens)], ["Cost", (t) => fmt.money(costOf(t))],
  ];
  const cell = (s: Span | null) => s ? <><span class="st-cell">{s.activity ? <Status kind="activity" value={s.activity.status} bare /> : s.execution ? <Status kind="execution" value={s.execution.status} bare /> : null} {s.name}</span> <span class="muted">{s.extra}</span></> : <span class="muted">–</span>;
  return (
    <Panel label="Comparison">
      <table class="tbl fixed compare">
        <thead><tr><th scope="col">{titleOf({ ...a, title: a.executions[0]?.title })} <TraceLink id={a.traceId} keep={12} /></th><th class="r took" scope="col">Took</th><th scope="col">{titleOf({ ...b, title: b.executions[0]?.title })} <TraceLink id={b.traceId} keep={12} /></th><th class="r took" scope="col">Took</th></tr></thead>
        <tbody>
          {facts.map(([name, of]) => <tr key={name} class={of(a) === of(b) ? "" : "differs"}><td class="muted">{name}</td><td class="r">{of(a)}</td><td class="muted">{name}</td><td class="r">{of(b)}</td></tr>)}
          {rows.map(([x, y], i) => (
            <tr key={i} class={x && y ? (x.tone === y.tone ? "" : "differs") : "differs"}>
              <td>{cell(x)}</td><td class="r">{x ? fmt.duration((x.end ?? x.start) - x.start) : ""}</td><td>{cell(y)}</td><td class="r">{y ? fmt.duration((y.end ?? y.start) - y.start) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
