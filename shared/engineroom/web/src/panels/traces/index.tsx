import "./traces.css";
import { useMemo, useState } from "preact/hooks";
import { href } from "../../app/base";
import { serverNow } from "../../app/api";
import { fmt, second } from "../../app/fmt";
import { usePages } from "../../app/pages";
import { moment, ranges } from "../../app/range";
import { go, setQuery } from "../../app/router";
import { Glyph, Icon } from "../../ui/icon";
import { List, type Column } from "../../ui/list";
import { Status, Tag, Time } from "../../ui/marks";
import { Choose, Filters, Outputs, PageHead, Toggle } from "../../ui/parts";
import { Empty, Failed, Filtered, Loading } from "../../ui/states";
import type { PanelProps } from "../props";
import { ComparePage } from "./compare";
import { titleOf, TracePage } from "./trace";
import type { TraceRow } from "./types";

const surfaces = ["heartbeat", "operate", "chat", "webhook", "worker", "coordinator"].map((s) => [s, s] as const);
const names = ["surface", "status", "agent", "since", "until"];

const Took = ({ of }: { of: TraceRow }) => {
  if (!of.endedAt) void second.value;
  return <>{fmt.duration((of.endedAt ? +new Date(of.endedAt) : serverNow()) - +new Date(of.startedAt))}</>;
};

const columns: Column<TraceRow>[] = [
  { key: "started", head: "Started", width: "96px", wide: true, class: "muted", cell: (t) => <Time at={t.startedAt} /> },
  { key: "status", head: "Status", width: "124px", cell: (t) => <Status kind="execution" value={t.status} /> },
  { key: "title", head: "Trace", cell: (t) => <div class="trunc two"><b class="nb">{titleOf(t)}</b> <span class={t.error ? "err" : "muted"}>{t.error ?? ""}</span></div> },
  { key: "id", head: "Id", width: "134px", wide: "roomy", class: "mono muted", cell: (t) => <span title={t.traceId}>{fmt.short(t.traceId, 12)}</span> },
  { key: "surface", head: "Surface", width: "100px", wide: true, cell: (t) => <Tag>{t.surface}</Tag> },
  { key: "agent", head: "Agent", width: "104px", wide: true, class: "muted", cell: (t) => t.agent },
  { key: "took", head: "Took", width: "92px", right: true, cell: (t) => <Took of={t} /> },
  { key: "tokens", head: "Tokens", width: "86px", right: true, wide: true, class: "muted", cell: (t) => (t.tokens ? fmt.tokens(t.tokens) : "–") },
  { key: "cost", head: "Cost", width: "80px", right: true, wide: true, class: "muted", cell: (t) => (t.costMicroUsd ? fmt.money(t.costMicroUsd) : "–") },
];

/** TracesPanel lists the traces, shows one, or compares two. */
export default function TracesPanel({ id, query }: PanelProps) {
  const other = query.get("compare");
  if (id && other) return <ComparePage a={id} b={other} />;
  if (id) return <TracePage key={id} id={id} query={query} />;
  return <Traces query={query} />;
}

function Traces({ query }: { query: URLSearchParams }) {
  const since = useMemo(() => moment(query.get("since")), [query.get("since")]);
  const until = useMemo(() => moment(query.get("until")), [query.get("until")]);
  const params = { ...Object.fromEntries(names.map((n) => [n, query.get(n)])), since, until, limit: 100 };
  const pages = usePages<TraceRow>("/traces", params, (t) => t.traceId, { kinds: ["execution."], every: 15_000 });
  const [picked, pick] = useState<Set<string>>(new Set());
  const [a, b] = [...picked];
  const filtered = names.some((n) => query.has(n));
  return (
    <div class="page">
      <PageHead title="Traces" acts={<>
        {a && b && picked.size === 2 && <button type="button" class="btn" onClick={() => go(href("traces/" + a, { compare: b }))}><Icon name="compare" />Compare two</button>}
        <Outputs path="/traces" params={params} />
      </>}>Everything that one cause has set off, newest first.</PageHead>
      <Filters>
        <Toggle name="status" value="running"><Glyph tone="active" />Running</Toggle>
        <Toggle name="status" value="failed"><Glyph tone="failed" />Failed</Toggle>
        <Toggle name="status" value="waiting"><Glyph tone="person" />Waiting</Toggle>
        <Choose name="surface" label="Surface" options={surfaces} />
        <Choose name="since" label="Any time" options={ranges} />
        {query.get("agent") && <button type="button" class="f on" onClick={() => setQuery({ agent: null })}>agent <b>{query.get("agent")}</b> <span aria-label="Clear">×</span></button>}
      </Filters>
      <section class="panel">
        {pages.items ? (
          pages.items.length ? <List label="Traces" rows={pages.items} columns={columns} rowKey={(t) => t.traceId} href={(t) => href("traces/" + t.traceId)} picked={picked} onPick={pick} onEnd={pages.more} />
            : filtered ? <Filtered what="trace" all="/traces" clear={() => setQuery(Object.fromEntries(names.map((n) => [n, null])))} />
            : <Empty title="No trace yet" command="bin/lanekeeper trigger heartbeat">A trace is everything that one cause sets off: a beat, a message, a webhook.</Empty>
        ) : pages.error ? <Failed error={pages.error} retry={pages.reload} what="Traces" /> : <Loading lines={8} />}
      </section>
    </div>
  );
}
