import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { fmt, useWidth } from "../../ui";
import { type Budget, dayMs, type Series } from "./budget";

const height = 272;

interface Points {
  xs: number[]; // seconds
  left: (number | null)[];
  even: (number | null)[];
  slow: (number | null)[]; // the slower of the two rates: the band's upper edge
  fast: (number | null)[];
  ahead: (number | null)[]; // the projection
  zero: number | null; // when it is spent, in seconds
}

// pointsOf computes the lines: what was left at each day's end, and where it goes from now on.
function pointsOf(b: Budget, s: Series, now: number): Points {
  const start = Date.parse(b.periodStart);
  const end = Date.parse(b.periodEnd);
  const past = new Map<number, number>();
  if (!s.items.length || Date.parse(s.items[0]!.day) <= start) past.set(start, b.allocated);
  for (const d of s.items) {
    const at = Math.min(Date.parse(d.day) + dayMs, now);
    if (at > start && at < now) past.set(at, d.remaining);
  }
  const left = Math.max(0, b.remaining + b.reserved);
  past.set(now, left);
  const p = s.projection;
  const rate = p?.dailyBurnRate ?? 0;
  const all = [rate, p?.rateYesterday ?? rate, p?.rateWeek ?? rate];
  const rates = [Math.min(...all), Math.max(...all)] as const;
  const empty = (r: number) => (r > 0 ? now + (left / r) * dayMs : Infinity);
  const from = Math.min(...past.keys(), start);
  const at = new Set([from, ...past.keys(), start, end, now]);
  for (const r of [rate, ...rates]) if (empty(r) < end) at.add(empty(r));
  const ms = [...at].sort((x, y) => x - y);
  const line = (r: number) => ms.map((t) => (t < now ? null : Math.max(0, left - (r * (t - now)) / dayMs)));
  const zero = empty(rate) < end ? empty(rate) / 1000 : null;
  return {
    xs: ms.map((t) => t / 1000), left: ms.map((t) => past.get(t) ?? null),
    even: ms.map((t) => (t < start ? null : (b.allocated * (end - t)) / (end - start))),
    slow: line(rates[0]), fast: line(rates[1]),
    ahead: ms.map((t) => (t < now || (zero !== null && t / 1000 > zero) ? null : Math.max(0, left - (rate * (t - now)) / dayMs))), zero,
  };
}

// onOrAt writes a time for which a budget's tokens last: of a period of a day or two with the hour.
function onOrAt(b: Budget, at: number): string {
  if (Date.parse(b.periodEnd) - Date.parse(b.periodStart) > 2 * dayMs) return "on " + fmt.day(at);
  const time = fmt.time(at, false);
  return (time.length > 5 ? "on " : "at ") + time;
}

/** sentence says what the chart shows. */
export function sentence(b: Budget, s: Series, now: number): string {
  if (b.remaining + b.reserved <= 0) return `The ${fmt.tokens(b.allocated)} tokens are spent; the period ends ${onOrAt(b, Date.parse(b.periodEnd))}`;
  const { zero } = pointsOf(b, s, now);
  const left = `${fmt.tokens(Math.max(0, b.remaining))} of ${fmt.tokens(b.allocated)} tokens are left`;
  return zero ? `${left}; at this pace they end ${onOrAt(b, zero * 1000)}, before the period ends on ${fmt.day(b.periodEnd)}` : `${left}; at this pace they last until the period ends on ${fmt.day(b.periodEnd)}`;
}

const millions = (n: number) => (n >= 1e6 ? `${+(n / 1e6).toFixed(1)} M` : n >= 1000 ? `${Math.round(n / 1000)} k` : String(n));

/** Burn draws what is left of a budget: the past, the even pace, and where the present pace leads. */
export function Burn({ budget: b, series: s, now }: { budget: Budget; series: Series; now: number }) {
  const [place, width] = useWidth<HTMLDivElement>();
  const [Plot, setPlot] = useState<typeof uPlot>();
  const theme = useTheme();
  const chart = useRef<uPlot>(null);
  useEffect(() => {
    void import("./plot").then((m) => setPlot(() => m.default));
  }, []);
  const minute = Math.floor(now / 60_000);
  useEffect(() => {
    if (!Plot || !width || !place.current) return;
    const p = pointsOf(b, s, now);
    const made = new Plot(options(width, p, b, theme), [p.xs, p.left, p.even, p.slow, p.fast, p.ahead], place.current);
    chart.current = made;
    return () => made.destroy();
  }, [Plot, width, theme, b.id, b.consumed, b.reserved, b.allocated, s, minute]);
  return <div class="burn" ref={place} role="img" aria-busy={!Plot} aria-label={sentence(b, s, now)} />;
}

// tick is the label of a time: its day, or its hour where several stand in a day.
function tick(at: number, apart: number): string {
  const clock = fmt.clock(at, false);
  return apart * 1000 >= dayMs || clock === "00:00" ? fmt.day(at) : clock;
}

// useTheme counts the changes of the theme: a canvas does not follow them by itself.
function useTheme() {
  const [n, set] = useState(0);
  useEffect(() => {
    const seen = new MutationObserver(() => set((x) => x + 1));
    seen.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => seen.disconnect();
  }, []);
  return n;
}

function options(width: number, p: Points, b: Budget, _theme: number): uPlot.Options {
  const css = getComputedStyle(document.documentElement);
  const of = (name: string) => css.getPropertyValue(`--${name}`).trim();
  const font = `11px ${css.getPropertyValue("--font")}`;
  const narrow = width < 520;
  const line = { points: { show: false }, spanGaps: true } as const;
  return {
    width, height, legend: { show: false }, cursor: { show: false }, select: { show: false, left: 0, top: 0, width: 0, height: 0 },
    padding: [14, narrow ? 16 : 92, 0, 0],
    scales: { x: { time: true, range: () => [p.xs[0]!, p.xs.at(-1)!] }, y: { range: () => [0, Math.max(b.allocated, ...p.left.filter((v) => v !== null)) * 1.02] } },
    axes: [
      { stroke: of("ink-3"), font, grid: { show: false }, ticks: { show: false }, space: narrow ? 80 : 120, size: 28, values: (_, at) => at.map((t) => tick(t * 1000, (at[1] ?? Infinity) - at[0]!)) },
      { stroke: of("ink-3"), font, grid: { stroke: of("line"), width: 1 }, ticks: { show: false }, size: 56, values: (_, at) => at.map(millions) },
    ],
    series: [
      {},
      { ...line, stroke: of("ink"), width: 1.75, fill: of("sunken") },
      { ...line, stroke: of("line-3"), width: 1, dash: [2, 4] },
      { ...line, stroke: "transparent", width: 0 },
      { ...line, stroke: "transparent", width: 0 },
      { ...line, stroke: of(p.zero ? "warn" : "ink-3"), width: 1.5, dash: [4, 3] },
    ],
    bands: [{ series: [3, 4], fill: of(p.zero ? "warn-t" : "sunken") }],
    hooks: { draw: [(u) => mark(u, p, b, of)] },
  };
}

// mark writes onto the chart what a legend would say: how much is left now, and when it is spent.
function mark(u: uPlot, p: Points, b: Budget, of: (name: string) => string) {
  const c = u.ctx;
  const px = devicePixelRatio;
  const at = (t: number, v: number): [number, number] => [u.valToPos(t, "x", true), u.valToPos(v, "y", true)];
  const now = p.left.findLastIndex((v) => v !== null);
  const [x, y] = at(p.xs[now]!, p.left[now]!);
  c.save();
  c.font = `550 ${12 * px}px ${getComputedStyle(document.documentElement).getPropertyValue("--font")}`;
  c.fillStyle = of("surface");
  circle(c, x, y, 5 * px);
  c.fillStyle = of("ink");
  circle(c, x, y, 3.5 * px);
  const words = `${fmt.tokens(Math.max(0, b.remaining))} left`;
  const right = x + 12 * px + c.measureText(words).width > u.width * px; // the line comes down from there: further up
  c.textAlign = right ? "right" : "left";
  // The line comes down from the left: the label goes under it, where it has room.
  const below = y + 18 * px < at(p.xs[now]!, 0)[1] - 4 * px;
  c.fillText(words, x + (right ? -6 : 8) * px, y + (!right ? -8 : below ? 18 : -26) * px);
  if (p.zero !== null) {
    const [zx, zy] = at(p.zero, 0);
    c.fillStyle = of("warn");
    c.beginPath();
    c.moveTo(zx, zy - 7 * px);
    c.lineTo(zx + 5 * px, zy + 2 * px);
    c.lineTo(zx - 5 * px, zy + 2 * px);
    c.fill();
    c.textAlign = "center";
    c.fillText(onOrAt(b, p.zero * 1000).slice(3), zx, zy - 34 * px);
  }
  if (u.width >= 520) {
    c.fillStyle = of("ink-3");
    c.textAlign = "left";
    c.font = `${11 * px}px ${getComputedStyle(document.documentElement).getPropertyValue("--font")}`;
    const [ex, ey] = at(p.xs.at(-1)!, 0);
    c.fillText("even pace", ex + 8 * px, ey - 4 * px);
  }
  c.restore();
}

function circle(c: CanvasRenderingContext2D, x: number, y: number, r: number) {
  c.beginPath();
  c.arc(x, y, r, 0, 2 * Math.PI);
  c.fill();
}
