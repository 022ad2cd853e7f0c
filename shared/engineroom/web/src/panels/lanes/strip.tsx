import { useMemo, useState } from "preact/hooks";
import { fmt, TraceLink, type Tone } from "../../ui";
import { Strip, type Mark, type StripRow } from "../../ui/strip";
import { holderName, shortLane, type Past } from "./lane";

const most = 12; // rows before "Show all"
const mostInTable = 1000;

interface Props {
  holds: Past[];
  held: number; // how many are held now
  now: number;
  span: number; // of the past, in ms
  next: number | null; // when the next beat is due
}

/** Holds draws one row a lane and one mark a hold, and has the same as a table. */
export function Holds({ holds, held, now, span, next }: Props) {
  const [all, setAll] = useState(false);
  const [table, setTable] = useState(false);
  const lanes = useMemo(() => rowsOf(holds), [holds]);
  const rows = useMemo(() => (all ? lanes : lanes.slice(0, most)), [lanes, all]);
  if (!holds.length) return <p class="empty">No lane was held in the last {span / 60_000} minutes.</p>;
  const said = `Holds of ${lanes.length} lanes in the last ${span / 60_000} minutes; ${held} ${held === 1 ? "is" : "are"} held now`;
  const beat = rows.findIndex((r) => r.key === "heartbeat");
  return (
    <>
      {table ? <StripTable holds={holds} now={now} />
        : <Strip rows={rows} span={span} label={said} height={32} thick={16} gutter={148}
            due={next !== null && beat >= 0 ? { row: beat, at: next, title: `next beat ${fmt.clock(next, false)}` } : null} />}
      <p class="strip-more">
        {!table && lanes.length > most && <button class="btn sm ghost" onClick={() => setAll(!all)}>{all ? "Show fewer" : `Show all ${lanes.length} lanes`}</button>}
        <button class="btn sm ghost" aria-pressed={table} onClick={() => setTable(!table)}>{table ? "Show as chart" : "Show as table"}</button>
      </p>
    </>
  );
}

// rowsOf sorts lanes by their kind, so that they keep their place while the page lives.
function rowsOf(holds: Past[]): (StripRow & { key: string })[] {
  const by = new Map<string, StripRow & { key: string }>();
  for (const h of holds) {
    const row = by.get(h.lane) ?? { key: h.lane, name: h.label || shortLane(h.lane), title: h.lane, marks: [] };
    row.marks.push(markOf(h));
    by.set(h.lane, row);
  }
  const first = ["heartbeat", "operate"];
  const rank = (l: string) => (first.indexOf(l) + 1 || 9);
  return [...by.values()].sort((a, b) => rank(a.key) - rank(b.key) || a.key.localeCompare(b.key));
}

function markOf(h: Past): Mark {
  const start = Date.parse(h.acquiredAt);
  const end = h.endedAt ? Date.parse(h.endedAt) : null;
  const lasted = end === null ? "" : `, ${fmt.duration(end - start)}`;
  return {
    start, end, tone: toneOf(h),
    title: `${h.lane}: ${holderName(h.holder)}, ${fmt.clock(start)}${lasted}, ${h.ended}${h.status !== h.ended ? `, ${h.status}` : ""}`,
    to: h.traceId && `traces/${h.traceId}`, words: h.agent || holderName(h.holder),
  };
}

function toneOf(h: Past): Tone {
  if (h.ended === "forced" || h.status === "failed") return "failed";
  if (!h.endedAt) return "active";
  return h.ended === "expired" ? "warn" : "done";
}

function StripTable({ holds, now }: { holds: Past[]; now: number }) {
  return (
    <div class="scroll strip-table">
      <table class="tbl" aria-label="Holds of the last 30 minutes">
        <thead><tr><th>Lane</th><th>Holder</th><th>From</th><th class="r">Held</th><th>Ended</th><th class="hide-p">Trace</th></tr></thead>
        <tbody>
          {holds.slice(0, mostInTable).map((h) => (
            <tr key={h.lane + h.acquiredAt}>
              <td><div class="trunc name" title={h.lane}>{h.label || h.lane}</div></td>
              <td>{h.agent || holderName(h.holder)}</td>
              <td class="num">{fmt.clock(h.acquiredAt)}</td>
              <td class="r">{fmt.duration((h.endedAt ? Date.parse(h.endedAt) : now) - Date.parse(h.acquiredAt))}</td>
              <td>{h.ended}</td>
              <td class="hide-p"><TraceLink id={h.traceId} keep={12} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {holds.length > mostInTable && <p class="strip-more muted">The latest {fmt.count(mostInTable)} of {fmt.count(holds.length)} holds.</p>}
    </div>
  );
}
