import { usePages } from "../../app/pages";
import { Choose, Empty, Failed, Filtered, Filters, fmt, List, Loading, Outputs, PageHead, Panel, serverNow, setQuery, Time, TraceLink, useQuery } from "../../ui";
import "./audit.css";
import type { AuditItem } from "../../app/api.gen";

type Entry = AuditItem;

const spans = [["-24h", "Last 24 h"], ["-168h", "Last 7 days"], ["-720h", "Last 30 days"]] as const;

// since turns "-24h" into a time. It is rounded to the minute, so that it stays the same for a while.
function since(relative: string | null): string | null {
  const hours = /^-(\d+)h$/.exec(relative ?? "");
  if (!hours) return relative;
  return new Date(Math.floor(serverNow() / 60_000) * 60_000 - Number(hours[1]) * 3_600_000).toISOString();
}

// Audit shows what people changed: who, what, when and why.
export default function Audit() {
  const [query] = useQuery();
  const params = { since: since(query.get("since")), by: query.get("by"), action: query.get("action"), limit: 200 };
  const audit = usePages<Entry>("/audit", params, (e) => e.id, {
    kinds: ["activity"], only: (e) => String(e.data.skill ?? "").includes("."), // changes are named "skill.create", calls "create_task"
  });
  const rows = audit.items ?? [];
  const filtered = params.since || params.by || params.action;
  const of = (pick: (e: Entry) => string) => [...new Set(rows.map(pick))].filter(Boolean).sort().map((v) => [v, v] as const);
  return (
    <div class="page">
      <PageHead title="Audit">What people and their keys changed. Nothing here can be changed or deleted by hand.</PageHead>
      <Filters>
        <Choose name="since" label="Any time" options={spans} />
        <Choose name="by" label="By anybody" options={of((e) => e.by)} />
        <Choose name="action" label="Any action" options={of((e) => e.action)} />
        <span class="grow" /><Outputs path="/audit" params={params} />
      </Filters>
      <Panel title="Changes" note={rows.length ? `${fmt.count(rows.length)}${audit.more ? "+" : ""}, newest first` : "newest first"}>
        {audit.error && !audit.items ? <Failed error={audit.error} retry={audit.reload} what="The audit" /> : !audit.items ? <Loading lines={8} />
          : rows.length ? (
            <List label="Changes" rows={rows} rowKey={(e) => e.id} onEnd={audit.more} columns={[
              { key: "at", head: "At", width: "104px", cell: (e) => <Time at={e.createdAt} /> },
              { key: "by", head: "By", width: "18%", wide: true, cell: (e) => <span class="trunc block" title={e.by}>{e.by}</span> },
              { key: "action", head: "Action", width: "210px", phone: "auto", cell: (e) => <code class="trunc block">{e.action}</code> },
              { key: "what", head: "What", wide: true, cell: (e) => <span class="trunc block" title={`${e.summary} ${e.subject}`}>{e.summary} <span class="muted">{e.subject}</span></span> },
              { key: "trace", head: "Trace", width: "140px", wide: true, cell: (e) => <TraceLink id={e.traceId} keep={12} /> },
            ]} />
          ) : filtered ? <Filtered what="change" all="/audit" clear={() => setQuery({ since: null, by: null, action: null })} />
            : <Empty title="Nothing was changed yet">Every change that a person or a key makes stands here: who, what, when, and in which trace.</Empty>}
      </Panel>
    </div>
  );
}
