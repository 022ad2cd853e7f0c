import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { href } from "../app/base";
import { go } from "../app/router";
import { fmt, second } from "../app/fmt";
import { theme } from "../app/theme";
import { useWidth } from "./parts";
import type { Tone } from "./status";
import "./strip.css";

/** Mark is one hold or run. end is null while it lasts. */
export interface Mark {
  start: number;
  end: number | null;
  tone: Tone; // done is slate: colour means that something is to be seen
  title: string;
  to?: string; // the page that it leads to
  words?: string; // written onto a long mark
}

export interface StripRow {
  key?: string; // else its name
  name: string;
  title?: string;
  marks: Mark[];
}

/** Shape is a mark as it is drawn. */
interface Shape { x: number; y: number; w: number; h: number; of: Mark }

const fills: Partial<Record<Tone, string>> = { failed: "failed", warn: "warn", active: "active", person: "person-t" };
const borders: Partial<Record<Tone, string>> = { person: "person", quiet: "line-3" };
const mostElements = 1500; // with more marks they are drawn on a canvas

interface Props {
  rows: StripRow[];
  span: number; // of the past, in ms; a ninth of it is shown of the future
  label: string; // the sentence that it shows
  due?: { row: number; at: number; title: string } | null;
  height?: number; // of a row
  thick?: number; // of a mark
  gutter?: number; // for the names of the rows
}

/**
 * Strip draws one row a surface or lane: a mark each run or hold, and the future to the right of now, with
 * what is due there. Screen readers have a table with the counts of each row.
 */
export function Strip({ rows, span, label, due, height = 40, thick = 10, gutter = 104 }: Props) {
  const [box, width] = useWidth<HTMLDivElement>();
  const now = Math.floor(second.value / 5000) * 5000;
  const left = width < 520 ? 94 : gutter;
  const future = span / 9;
  const x = (t: number): number => left + ((t - (now - span)) / (span + future)) * (width - left - 12);
  const bottom = rows.length * height;
  const hour = 3_600_000;
  const every = span > 2 * hour ? hour : span > 0.6 * hour ? hour / 4 : (hour / 12) * (width < 520 ? 2 : 1);
  const lines: number[] = [];
  for (let t = Math.ceil((now - span) / every) * every; t < now + future; t += every) if (x(t) < width - 24) lines.push(t);
  const shapes = useMemo(() => rows.flatMap((row, i) => row.marks.flatMap((of): Shape[] => {
    const end = of.end ?? now;
    if (end < now - span || !width) return [];
    const a = Math.max(left, x(of.start)), b = Math.max(a + 2.5, Math.min(x(end), width - 12)), middle = i * height + height / 2;
    const h = of.tone === "failed" ? Math.max(14, thick) : thick;
    return [{ x: a, y: middle - h / 2, w: b - a, h, of }];
  })), [rows, now, width]);
  const failed = (marks: Mark[]): number => marks.filter((m) => m.tone === "failed").length;
  return (
    <div ref={box} class="strip" onClick={(e) => {
      const to = (e.target as Element).closest<SVGElement>("[data-to]")?.dataset.to;
      if (to) go(href(to));
    }}>
      {width > 0 && (
        <svg class="ch" width={width} height={bottom + 26} role="img" aria-label={label}>
          <defs>
            <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="6" height="6" fill="var(--person-t)" /><rect width="2" height="6" fill="var(--person)" />
            </pattern>
          </defs>
          <rect x={x(now)} y="0" width={Math.max(0, width - 12 - x(now))} height={bottom} fill="var(--bg)" />
          {lines.map((t) => (
            <g key={t}><path class="ax" d={`M${x(t)} 0V${bottom}`} />{Math.abs(x(t) - x(now)) > 34 && <text x={x(t)} y={bottom + 20} text-anchor="middle">{fmt.clock(t, false)}</text>}</g>
          ))}
          {rows.map((row, i) => (
            <g key={row.key ?? row.name}>
              <path class="ax" d={`M0 ${(i + 1) * height + 0.5}H${width}`} />
              <text class="k" x="16" y={i * height + height / 2 + 4}>{cut(row.name, Math.floor((left - 14) / 6.6))}{row.title && <title>{row.title}</title>}</text>
            </g>
          ))}
          {shapes.length <= mostElements && shapes.map(({ of, x, y, w, h }, n) => (
            <g key={n} data-to={of.to}>
              <title>{of.title}</title>
              <rect x={x} y={y} width={w} height={h} rx="2" fill={of.tone === "person" ? "url(#hatch)" : colour(of, (name) => `var(--${name})`)} stroke={borders[of.tone] && `var(--${borders[of.tone]})`} />
              {of.words && w > 60 && <text class="in" x={x + 6} y={y + h / 2 + 4}>{cut(of.words, Math.floor((w - 12) / 7))}</text>}
            </g>
          ))}
          {due && x(due.at) < width - 16 && due.at > now && (
            <rect x={x(due.at) - 3} y={(due.row + 0.5) * height - thick / 2} width="7" height={thick} rx="2" fill="none" stroke="var(--line-3)" stroke-dasharray="2 2"><title>{due.title}</title></rect>
          )}
          <path d={`M${x(now)} 0V${bottom}`} stroke="var(--active)" stroke-width="1.5" />
          <text class="now" x={x(now)} y={bottom + 20} text-anchor="middle">now</text>
        </svg>
      )}
      {shapes.length > mostElements && <Drawn shapes={shapes} left={left} width={Math.ceil(x(now)) - left + 2} height={bottom} />}
      <div class="sr"><table>
        <caption>{label}</caption>
        <thead><tr><th>Name</th><th>All</th><th>Failed</th><th>Now</th></tr></thead>
        <tbody>{rows.map((r) => <tr key={r.key ?? r.name}><td>{r.name}</td><td>{r.marks.length}</td><td>{failed(r.marks)}</td><td>{r.marks.filter((m) => m.end === null).length}</td></tr>)}</tbody>
      </table></div>
    </div>
  );
}

const cut = (text: string, n: number): string => (text.length > n ? text.slice(0, n - 1) + "…" : text);

const colour = (m: Mark, of: (name: string) => string): string => (m.tone === "quiet" ? "none" : of(fills[m.tone] ?? "model"));

// Drawn draws many marks on a canvas over the rows, and tells and follows them as elements would.
function Drawn({ shapes, left, width, height }: { shapes: Shape[]; left: number; width: number; height: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const now = theme.value;
  useLayoutEffect(() => {
    const to = canvas.current!, c = to.getContext("2d")!, css = getComputedStyle(document.documentElement);
    to.width = width * devicePixelRatio;
    to.height = height * devicePixelRatio;
    c.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, -left * devicePixelRatio, 0);
    const known = new Map<string, string>();
    const named = (name: string): string => {
      if (!known.has(name)) known.set(name, css.getPropertyValue("--" + name).trim());
      return known.get(name)!;
    };
    for (const { of: m, x, y, w, h } of shapes) {
      const fill = colour(m, named), border = borders[m.tone];
      c.beginPath();
      c.roundRect(x, y, w, h, 2);
      if (fill !== "none") { c.fillStyle = fill; c.fill(); }
      if (border) { c.strokeStyle = named(border); c.stroke(); }
    }
  }, [shapes, left, width, height, now]);
  const under = (e: MouseEvent): Mark | undefined => {
    const px = e.offsetX + left, py = e.offsetY;
    return shapes.findLast((s) => px >= s.x - 1 && px <= s.x + s.w + 1 && py >= s.y - 2 && py <= s.y + s.h + 2)?.of;
  };
  return (
    <canvas ref={canvas} aria-hidden="true" style={{ left: left + "px", width: width + "px", height: height + "px" }}
      onMouseMove={(e) => {
        const mark = under(e);
        e.currentTarget.title = mark?.title ?? "";
        e.currentTarget.style.cursor = mark?.to ? "pointer" : "";
      }}
      onClick={(e) => {
        const to = under(e)?.to;
        if (to) go(href(to));
      }} />
  );
}
