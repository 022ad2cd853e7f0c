import { useMemo, useRef, useState } from "preact/hooks";
import { api, can, serverNow } from "../../app/api";
import { href } from "../../app/base";
import { fmt, second } from "../../app/fmt";
import { useResource } from "../../app/resource";
import { setQuery } from "../../app/router";
import { costOf, kindOf } from "../../ui/activity";
import { Icon } from "../../ui/icon";
import { Code, copy, Status } from "../../ui/marks";
import { PageHead, Sheet } from "../../ui/parts";
import { Shown } from "../../ui/states";
import { cancel, replay, type Replayed } from "./actions";
import { SpanPane } from "./span";
import { spansOf } from "./spans";
import type { Trace } from "./types";
import { Waterfall } from "./waterfall";

/** titleOf names a trace: "Heartbeat of 14:10", or what its first execution worked on. */
export const titleOf = (t: { title?: string | null; surface: string; startedAt: string }): string =>
  t.title && t.surface !== "heartbeat" ? t.title : `${t.surface.charAt(0).toUpperCase()}${t.surface.slice(1)} of ${fmt.time(t.startedAt, false)}`;

/** TracePage is one trace: its totals, its waterfall, and a pane for the span that is selected. */
export function TracePage({ id, query }: { id: string; query: URLSearchParams }) {
  const runs = useRef<ReadonlySet<string>>(new Set());
  const read = useResource<Trace>("/traces/" + encodeURIComponent(id), undefined, {
    kinds: ["execution.", "activity", "step", "lane.", "approval."], only: (e) => e.traceId === id || (e.kind === "step" && runs.current.has(e.subject ?? "")),
  });
  runs.current = useMemo(() => new Set(read.data?.executions.map((e) => e.id)), [read.data]);
  return (
    <div class="page">
      <Shown of={read} what="The trace" lines={8}>{(t) => <Whole t={t} query={query} />}</Shown>
      {!read.data && <h1 class="sr">Trace {id}</h1>}
    </div>
  );
}

function Whole({ t, query }: { t: Trace; query: URLSearchParams }) {
  const [replayed, setReplayed] = useState<Replayed | null>(null);
  const [busy, setBusy] = useState(false);
  const spans = useMemo(() => spansOf(t), [t]);
  const wanted = query.get("span");
  const span = spans.find((s) => s.id === wanted) ?? null;
  const first = t.executions[0];
  const title = titleOf({ ...t, title: first?.title });
  const runs = t.executions.find((e) => e.status === "running" || e.status === "waiting" || e.status === "parked");
  if (!t.endedAt) void second.value;
  const models = t.activities.filter((a) => kindOf(a) === "model").length;
  const skills = t.activities.filter((a) => a.kind === "skill" && kindOf(a) === "tool" && a.status !== "pending_approval").length;
  const total: [string, string][] = [
    ["Started", fmt.time(t.startedAt)], [t.endedAt ? "Took" : "Runs for", fmt.duration(t.endedAt ? t.durationMs : serverNow() - +new Date(t.startedAt))],
    ["Executions", fmt.count(t.executions.length)], ["Model calls", fmt.count(models)], ["Skill calls", fmt.count(skills)],
    ["Tokens", fmt.tokens(t.usage.totalTokens)], ["Cost", fmt.money(costOf(t))],
  ];
  const again = async (): Promise<void> => {
    setBusy(true);
    const got = await replay(t.traceId);
    setBusy(false);
    if (got) setReplayed(got);
  };
  return (
    <>
      <PageHead title={<span class="with-status">{title} <Status kind="execution" value={t.status} /></span>}
        crumb={<><a class="lnk" href={href("traces")}>Traces</a> / <span class="mono">{t.traceId}</span></>}
        acts={<>
          <button type="button" class="btn" onClick={() => void copy(location.href, "Link copied")}><Icon name="link" />Copy link</button>
          <button type="button" class="btn wide" onClick={() => void api.get("/traces/" + t.traceId, { include: "steps" }).then((all) => copy(JSON.stringify(all, null, 2), "Copied as JSON"))}><Icon name="copy" />JSON</button>
          {can("replay-trace") && t.executions.length > 0 && <button type="button" class="btn wide" disabled={busy} onClick={() => void again()}><Icon name="replay" />{busy ? "Replays …" : "Replay"}</button>}
          {runs && can("cancel-execution") && <button type="button" class="btn" onClick={() => void cancel(runs.id, title)}>Cancel run</button>}
        </>} />
      <div class={"split" + (span ? " open" : " alone")}>
        <section class="panel" aria-label="Waterfall">
          <dl class="tot">{total.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
          {t.truncated && <p class="callout warn in">There is more than is shown: GET /executions and /activity list it all.</p>}
          {spans.length ? <Waterfall key={t.traceId} spans={spans} selected={span?.id ?? null} onSelect={(s) => setQuery({ span: s }, wanted !== null)} /> : <div class="empty"><b>Nothing was recorded in it</b></div>}
        </section>
        {span && <SpanPane key={span.id} span={span} trace={t} onClose={() => setQuery({ span: null })} />}
      </div>
      {replayed && <Replay of={replayed} onClose={() => setReplayed(null)} />}
    </>
  );
}

function Replay({ of, onClose }: { of: Replayed; onClose: () => void }) {
  const all = of.executions.flatMap((e) => e.steps);
  return (
    <Sheet title="Replay" onClose={onClose}>
      <p>{of.differences ? `${of.differences} of ${all.length} steps differ.` : `All ${all.length} steps are the same.`} Nothing was done.</p>
      <div class="replay">
        {of.executions.map((e) => e.steps.map((s) => (
          <details key={e.executionId + s.step} open={!s.same}>
            <summary>Step {s.step} <Status kind="step" value={s.same ? "succeeded" : "uncertain"} word={s.same ? "Same" : "Differs in " + s.differs.join(", ")} /></summary>
            {!s.same && <div class="two"><div><p class="role">Recorded</p><Code value={shortOf(s.recorded)} /></div><div><p class="role">Replayed</p><Code value={shortOf(s.replayed)} /></div></div>}
          </details>
        )))}
      </div>
      <div class="foot"><button type="button" class="btn" onClick={onClose}>Close</button></div>
    </Sheet>
  );
}

const shortOf = (s: Replayed["executions"][number]["steps"][number]["recorded"]): unknown => ({ text: s.text || undefined, calls: s.calls.length ? s.calls.map((c) => c.name + " " + c.arguments) : undefined, model: s.model });
