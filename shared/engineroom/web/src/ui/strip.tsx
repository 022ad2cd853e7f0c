import { href } from "../app/base";
import { go } from "../app/router";
import { serverNow } from "../app/api";
import { fmt, second } from "../app/fmt";
import { useWidth } from "./parts";
import type { Tone } from "./status";

/** Mark is one hold or run. end is null while it lasts. */
export interface Mark {
  start: number;
  end: number | null;
  tone: Tone; // done is slate: colour means that something is to be seen
  title: string;
  to?: string; // the page that it leads to
  dot?: boolean; // it changed nothing
}

export interface StripRow {
  name: string;
  marks: Mark[];
}

const fills: Partial<Record<Tone, string>> = { failed: "var(--failed)", active: "var(--active)", person: "url(#hatch)", quiet: "none" };
const mostMarks = 1500;

/**
 * Strip draws one row a surface: a mark each run, and the future to the right of now, with what is
 * due there. The table behind it is for screen readers.
 */
export function Strip({ rows, hours, label, due, height = 40 }: { rows: StripRow[]; hours: number; label: string; due?: { row: number; at: number; title: string } | null; height?: number }) {
  const [box, width] = useWidth<HTMLDivElement>();
  void Math.floor(second.value / 15_000);
  const now = Math.floor(serverNow() / 5000) * 5000;
  const left = width < 520 ? 94 : 104;
  const span = hours * 3_600_000;
  const future = span / 9;
  const x = (t: number): number => left + ((t - (now - span)) / (span + future)) * (width - left - 12);
  const bottom = rows.length * height;
  const every = hours > 2 ? 3_600_000 : hours > 0.6 ? 900_000 : 300_000;
  const lines: number[] = [];
  for (let t = Math.ceil((now - span) / every) * every; t < now + future; t += every) if (x(t) < width - 24) lines.push(t);
  const failed = rows.reduce((n, r) => n + r.marks.filter((m) => m.tone === "failed").length, 0);
  const all = rows.reduce((n, r) => n + r.marks.length, 0);
  return (
    <div ref={box} class="strip" onClick={(e) => {
      const to = (e.target as Element).closest<SVGElement>("[data-to]")?.dataset.to;
      if (to) go(href(to));
    }}>
      {width > 0 && (
        <svg class="ch" width={width} height={bottom + 26} role="img" aria-label={`${label}: ${fmt.plural(all, "run")}, ${failed} failed`}>
          <defs>
            <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="6" height="6" fill="var(--person-t)" /><rect width="2" height="6" fill="var(--person)" />
            </pattern>
          </defs>
          <rect x={x(now)} y="0" width={Math.max(0, width - 12 - x(now))} height={bottom} fill="var(--bg)" />
          {lines.map((t) => (
            <g key={t}><path class="ax" d={`M${x(t)} 0V${bottom}`} />{Math.abs(x(t) - x(now)) > 34 && <text x={x(t)} y={bottom + 20} text-anchor="middle">{fmt.clock(t, false)}</text>}</g>
          ))}
          {rows.map((row, i) => {
            const middle = i * height + height / 2;
            return (
              <g key={row.name}>
                <path class="ax" d={`M0 ${(i + 1) * height + 0.5}H${width}`} />
                <text class="k" x="16" y={middle + 4}>{row.name}</text>
                {row.marks.slice(0, Math.floor(mostMarks / rows.length)).map((m, n) => {
                  const end = m.end ?? now;
                  if (end < now - span) return null;
                  const a = Math.max(left, x(m.start));
                  const b = Math.min(Math.max(a + 2.5, x(end)), width - 12);
                  if (m.dot) return <circle key={n} cx={(a + b) / 2} cy={middle} r="1.5" fill="var(--line-3)" />;
                  const tall = m.tone === "failed" ? 14 : 10;
                  return (
                    <rect key={n} data-to={m.to} x={a} y={middle - tall / 2} width={Math.max(0.5, b - a)} height={tall} rx="2" fill={fills[m.tone] ?? "var(--model)"}
                        stroke={m.tone === "person" ? "var(--person)" : m.tone === "quiet" ? "var(--line-3)" : undefined}><title>{m.title}</title></rect>
                  );
                })}
                {due && due.row === i && x(due.at) < width - 16 && due.at > now && (
                  <rect x={x(due.at) - 3} y={middle - 5} width="7" height="10" rx="2" fill="none" stroke="var(--line-3)" stroke-dasharray="2 2"><title>{due.title}</title></rect>
                )}
              </g>
            );
          })}
          <path d={`M${x(now)} 0V${bottom}`} stroke="var(--active)" stroke-width="1.5" />
          <text class="now" x={x(now)} y={bottom + 20} text-anchor="middle">now</text>
        </svg>
      )}
    </div>
  );
}
