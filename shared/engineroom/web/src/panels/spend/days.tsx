import { useState } from "preact/hooks";
import { fmt, useWidth } from "../../ui";
import { dayMs, type Usage } from "./budget";

const height = 212;
const left = 48;
const bottom = 24;

interface Stack {
  groups: string[]; // the largest two, and the others
  days: { day: string; parts: number[] }[];
}

// stackOf shares each day's tokens out among the two largest groups and the others.
function stackOf(rows: Usage[], from: number, to: number): Stack {
  const sum = new Map<string, number>();
  for (const r of rows) sum.set(r.keys?.[1] ?? "", (sum.get(r.keys?.[1] ?? "") ?? 0) + r.totalTokens);
  const largest = [...sum.entries()].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const own = largest.length > 3 ? largest.slice(0, 2) : largest;
  const groups = largest.length > 3 ? [...own, largest.length === 3 ? "1 other" : `${largest.length - 2} others`] : own;
  const days: Stack["days"] = [];
  for (let t = Math.floor(from / dayMs) * dayMs; t < to; t += dayMs) {
    const day = new Date(t).toISOString().slice(0, 10);
    const parts = groups.map(() => 0);
    for (const r of rows) {
      if (!(r.keys?.[0] ?? r.key).startsWith(day)) continue;
      const i = own.indexOf(r.keys?.[1] ?? "");
      parts[i < 0 ? groups.length - 1 : i]! += r.totalTokens;
    }
    days.push({ day, parts });
  }
  return { groups, days };
}

const nice = (n: number) => {
  const p = 10 ** Math.floor(Math.log10(Math.max(1, n)));
  return [1, 1.2, 1.6, 2, 2.4, 3, 4, 6, 8, 10].map((f) => f * p).find((f) => f >= n) ?? n;
};
const short = (n: number) => (n >= 1e6 ? `${+(n / 1e6).toFixed(2)} M` : n >= 1000 ? `${+(n / 1000).toFixed(1)} k` : String(Math.round(n)));
const nameOf = (group: string) => group || "(none)";

/** Days draws the tokens of each day, stacked in three steps of one colour; or writes them as a table. */
export function Days({ rows, from, to, by }: { rows: Usage[]; from: number; to: number; by: string }) {
  const [place, width] = useWidth<HTMLDivElement>();
  const [table, setTable] = useState(false);
  const s = stackOf(rows, from, to);
  const total = rows.reduce((n, r) => n + r.totalTokens, 0);
  const label = `Tokens a day by ${by}: ${fmt.tokens(total)} in ${s.days.length} days`;
  return (
    <>
      <p class="legend">
        {s.groups.map((g, i) => <span key={g} class="row"><i class={`s${i + 1}`} />{nameOf(g)}</span>)}
        <span class="grow" />
        <button type="button" class="btn sm ghost" aria-pressed={table} onClick={() => setTable(!table)}>{table ? "Show as chart" : "Show as table"}</button>
      </p>
      <div ref={place} class="days">
        {table ? <Rows stack={s} label={label} /> : width > 0 && <Bars stack={s} width={width} label={label} />}
      </div>
    </>
  );
}

function Bars({ stack: { days }, width, label }: { stack: Stack; width: number; label: string }) {
  const most = nice(Math.max(1, ...days.map((d) => d.parts.reduce((a, b) => a + b, 0))));
  const w = (width - left - 12) / Math.max(1, days.length);
  const y = (v: number) => 8 + (1 - v / most) * (height - 8 - bottom);
  const every = Math.max(1, Math.ceil(days.length / (width < 520 ? 4 : 8)));
  return (
    <svg class="ch" width={width} height={height} role="img" aria-label={label}>
      {[0, 0.25, 0.5, 0.75, 1].map((f) => (
        <g key={f}>
          <path class="ax" d={`M${left} ${y(f * most) + 0.5}H${width - 12}`} />
          <text x={left - 8} y={y(f * most) + 4} text-anchor="end">{short(f * most)}</text>
        </g>
      ))}
      {days.map((d, i) => {
        let below = 0;
        return (
          <g key={d.day}>
            <title>{`${d.day}: ${fmt.tokens(d.parts.reduce((a, b) => a + b, 0))} tokens`}</title>
            {d.parts.map((v, j) => {
              const foot = below;
              below += v;
              const h = y(foot) - y(below) - (foot > 0 ? 1 : 0);
              return v > 0 && <rect key={j} x={left + i * w + Math.min(3, w / 6)} y={y(below)} width={Math.max(2, w - Math.min(6, w / 3))} height={Math.max(0.5, h)} class={`b s${j + 1}`} />;
            })}
            {(i === days.length - 1 || (i % every === 0 && (days.length - 1 - i) * w > 72)) && <text x={left + i * w + w / 2} y={height - 6} text-anchor={i === days.length - 1 && w < 40 ? "end" : "middle"}>{fmt.day(d.day + "T12:00:00Z")}</text>}
          </g>
        );
      })}
    </svg>
  );
}

function Rows({ stack: s, label }: { stack: Stack; label: string }) {
  return (
    <div class="scroll">
      <table class="tbl" aria-label={label}>
        <thead><tr><th>Day</th>{s.groups.map((g) => <th key={g} class="r">{nameOf(g)}</th>)}<th class="r">All</th></tr></thead>
        <tbody>
          {s.days.map((d) => (
            <tr key={d.day}><td class="num">{d.day}</td>{d.parts.map((v, i) => <td key={i} class="r">{fmt.tokens(v)}</td>)}<td class="r">{fmt.tokens(d.parts.reduce((a, b) => a + b, 0))}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
