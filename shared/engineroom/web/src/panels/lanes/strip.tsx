import { useState } from "preact/hooks";
import { fmt, go, href, TraceLink, useWidth } from "../../ui";
import { holderName, shortLane, type Past } from "./lane";

const rowHeight = 32;
const most = 12; // rows before "Show all"

interface Props {
  holds: Past[];
  now: number;
  span: number; // of the past, in ms; a ninth of it is shown of the future
  next: number | null; // when the next beat is due
}

// Strip draws one row a lane and one mark a hold, up to now, with a little of the future.
export function Strip({ holds, now, span, next }: Props) {
  const [place, width] = useWidth<HTMLDivElement>();
  const [all, setAll] = useState(false);
  const [table, setTable] = useState(false);
  const lanes = rowsOf(holds);
  const rows = all ? lanes : lanes.slice(0, most);
  if (!holds.length) return <p class="empty">No lane was held in the last {span / 60_000} minutes.</p>;
  const said = `Holds of ${lanes.length} lanes in the last ${span / 60_000} minutes; ${holds.filter((h) => !h.endedAt).length} are held now`;
  return (
    <>
      <div ref={place} class="strip">
        {width > 0 && !table && <Chart rows={rows} width={width} now={now} span={span} next={next} label={said} />}
        {table && <StripTable holds={holds} now={now} />}
      </div>
      <p class="strip-more">
        {!table && lanes.length > most && <button class="btn sm ghost" onClick={() => setAll(!all)}>{all ? "Show fewer" : `Show all ${lanes.length} lanes`}</button>}
        <button class="btn sm ghost" aria-pressed={table} onClick={() => setTable(!table)}>{table ? "Show as chart" : "Show as table"}</button>
      </p>
    </>
  );
}

interface Row { lane: string; name: string; holds: Past[] }

// rowsOf sorts lanes by their kind, so that they keep their place while the page lives.
function rowsOf(holds: Past[]): Row[] {
  const by = new Map<string, Row>();
  for (const h of holds) {
    const row = by.get(h.lane) ?? { lane: h.lane, name: h.label || shortLane(h.lane), holds: [] };
    row.holds.push(h);
    by.set(h.lane, row);
  }
  const first = ["heartbeat", "operate", "coordinator"];
  const rank = (l: string) => (first.indexOf(l) + 1 || 9);
  return [...by.values()].sort((a, b) => rank(a.lane) - rank(b.lane) || a.lane.localeCompare(b.lane));
}

function Chart({ rows, width, now, span, next, label }: { rows: Row[]; width: number; now: number; span: number; next: number | null; label: string }) {
  const left = width < 520 ? 94 : 148;
  const future = span / 9;
  const x = (t: number) => left + ((t - (now - span)) / (span + future)) * (width - left - 12);
  const height = rows.length * rowHeight;
  const step = 5 * 60_000 * (width < 520 ? 2 : 1);
  const ticks: number[] = [];
  for (let t = Math.ceil((now - span) / step) * step; t < now + future && x(t) < width - 24; t += step) ticks.push(t);
  return (
    <svg class="ch" width={width} height={height + 26} role="img" aria-label={label}>
      <rect x={x(now)} y={0} width={Math.max(0, width - 12 - x(now))} height={height} fill="var(--bg)" />
      {ticks.map((t) => (
        <g key={t}>
          <path class="ax" d={`M${x(t)} 0V${height}`} />
          {Math.abs(x(t) - x(now)) > 34 && <text x={x(t)} y={height + 20} text-anchor="middle">{fmt.clock(t, false)}</text>}
        </g>
      ))}
      {rows.map((r, i) => (
        <g key={r.lane} transform={`translate(0 ${i * rowHeight})`}>
          <path class="ax" d={`M0 ${rowHeight + 0.5}H${width}`} />
          <text class="k" x={16} y={rowHeight / 2 + 4}>{cut(r.name, left < 100 ? 12 : 20)}<title>{r.lane}</title></text>
          {r.holds.map((h) => <Mark key={h.acquiredAt} hold={h} x={x} left={left} now={now} />)}
          {r.lane === "heartbeat" && next !== null && next > now && x(next) < width - 16 && <rect class="due" x={x(next) - 3} y={rowHeight / 2 - 8} width="7" height="16" rx="2"><title>{`next beat ${fmt.clock(next, false)}`}</title></rect>}
        </g>
      ))}
      <path d={`M${x(now)} 0V${height}`} stroke="var(--active)" stroke-width="1.5" />
      <text class="now" x={x(now)} y={height + 20} text-anchor="middle">now</text>
    </svg>
  );
}

const cut = (text: string, n: number) => (text.length > n ? text.slice(0, n - 1) + "…" : text);

function Mark({ hold: h, x, left, now }: { hold: Past; x: (t: number) => number; left: number; now: number }) {
  const from = Date.parse(h.acquiredAt);
  const to = h.endedAt ? Date.parse(h.endedAt) : now;
  const a = Math.max(left, x(from));
  const b = Math.max(a + 2.5, x(to));
  if (x(to) < left) return null;
  const said = `${h.lane}: ${holderName(h.holder)}, ${fmt.clock(from)}, ${fmt.duration(to - from)}, ${h.ended}${h.status ? `, ${h.status}` : ""}`;
  const shape = h.surface === "coordinator" && h.changed === false
    ? <circle cx={(a + b) / 2} cy={rowHeight / 2} r={1.5} class="idle" />
    : (
      <>
        <rect x={a} y={rowHeight / 2 - 8} width={b - a} height={16} rx={2} class={toneOf(h)} />
        {b - a > 60 && <text class="in" x={a + 6} y={rowHeight / 2 + 4}>{cut(h.agent || holderName(h.holder), Math.floor((b - a - 12) / 7))}</text>}
      </>
    );
  // The mouse follows a mark to its trace; the keyboard has the links of the table.
  return <g class={h.traceId && "to"} onClick={h.traceId ? () => go(href(`traces/${h.traceId}`)) : undefined}><title>{said}</title>{shape}</g>;
}

function toneOf(h: Past) {
  if (h.ended === "forced" || h.status === "failed") return "m failed";
  if (!h.endedAt) return "m active";
  return h.ended === "expired" ? "m warn" : "m";
}

function StripTable({ holds, now }: { holds: Past[]; now: number }) {
  return (
    <div class="scroll strip-table">
      <table class="tbl" aria-label="Holds of the last 30 minutes">
        <thead><tr><th>Lane</th><th>Holder</th><th>From</th><th class="r">Held</th><th>Ended</th><th class="hide-p">Trace</th></tr></thead>
        <tbody>
          {holds.map((h) => (
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
    </div>
  );
}
