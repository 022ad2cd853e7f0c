// The rows of a waterfall, from what the API says of a trace.

import { fmt } from "../../app/fmt";
import type { Activity } from "../../app/types";
import { costOf, gist, kindOf, nameOf } from "../../ui/activity";
import { toneOf, type Tone } from "../../ui/status";
import type { Execution, Hold, Trace } from "./types";

type SpanKind = "lane" | "exec" | "phase" | "model" | "tool";

export interface Span {
  id: string;
  kind: SpanKind;
  depth: number;
  name: string;
  extra: string;
  start: number;
  end: number | null; // null while it goes on
  tone: Tone;
  cost: number | null; // micro-dollars
  parent: string | null; // the span that it is folded with
  children: number;
  activity?: Activity;
  execution?: Execution;
  hold?: Hold;
}

const ms = (at: string): number => +new Date(at);

/** spansOf lists the spans in the order of the waterfall: each execution before what happened in it. */
export function spansOf(t: Trace): Span[] {
  const executions = [...t.executions].sort((a, b) => ms(a.createdAt) - ms(b.createdAt));
  const known = new Set(executions.map((e) => e.id));
  const spans: Span[] = [];
  const placed = new Set<Hold>();
  // A phase that found no work is written together with the next one, and began before it.
  const idle = new Map<string, number>();
  const startOf = (a: Activity): number => idle.get(a.id) ?? (a.startedAt ? ms(a.startedAt) : ms(a.createdAt) - a.durationMs);

  // What a run that waits for a person has asked last, it still waits for.
  const asked = new Map<string, Activity>();
  for (const a of t.activities) {
    const e = a.status === "pending_approval" && executions.find((e) => e.id === a.executionId);
    if (e && e.status === "waiting") asked.set(e.id, a);
  }

  const hold = (h: Hold, depth: number, parent: string | null): void => {
    placed.add(h);
    spans.push({
      id: "lane:" + h.lane + h.acquiredAt, kind: "lane", depth, name: "lane " + fmt.short(h.lane, 28), extra: h.fence ? "fence " + h.fence : "", start: ms(h.acquiredAt),
      end: h.endedAt ? ms(h.endedAt) : null, tone: h.endedAt ? "done" : "active", cost: null, parent, children: 0, hold: h,
    });
  };
  const leaf = (a: Activity, depth: number, parent: string | null): void => {
    const of = kindOf(a);
    const kind = of === "end" ? "tool" : of;
    spans.push({
      id: a.id, kind, depth, name: nameOf(a), extra: gist(a), start: startOf(a),
      end: a.status === "pending_approval" && a === asked.get(a.executionId ?? "") ? null : startOf(a) + a.durationMs, tone: toneOf("activity", a.status), cost: costOf(a), parent, children: 0, activity: a,
    });
  };
  const within = (id: string | null): (Execution | Activity | Hold)[] => [
    ...executions.filter((e) => (e.parentExecutionId && known.has(e.parentExecutionId) ? e.parentExecutionId : null) === id),
    ...t.activities.filter((a) => (a.executionId && known.has(a.executionId) ? a.executionId : null) === id),
    ...(id === null ? [] : t.holds.filter((h) => !placed.has(h) && (h.executionId ?? owner(h)) === id)),
  ];
  // A hold without an execution belongs to the innermost one that works on what its lane protects.
  const owner = (h: Hold): string | null => executions.findLast((e) => e.subject === h.lane)?.id ?? null;
  const isActivity = (x: Execution | Activity | Hold): x is Activity => "durationMs" in x;
  const endOf = (a: Activity): number => startOf(a) + a.durationMs;
  const begins = (x: Execution | Activity | Hold): number => ("acquiredAt" in x ? ms(x.acquiredAt) : isActivity(x) ? startOf(x) : ms(x.createdAt));

  const walk = (id: string | null, depth: number): void => {
    // Phases follow one another: what begins before one has ended, and after the one before it, is its own.
    const all = within(id).filter((x) => !isActivity(x) || kindOf(x) !== "end" || x.status === "error");
    const phases = all.filter((x): x is Activity => isActivity(x) && kindOf(x) === "phase").sort((a, b) => endOf(a) - endOf(b));
    const phaseOf = (x: Execution | Activity | Hold): number => {
      const own = phases.indexOf(x as Activity);
      if (own >= 0 || "acquiredAt" in x) return own;
      // A phase that found no work has nothing. One may seem to begin a little after the first of its runs.
      const works = (p: Activity): boolean => (p.output as { considered?: number } | undefined)?.considered !== 0;
      const runs = phases.findIndex((p) => works(p) && startOf(p) <= begins(x) && begins(x) <= endOf(p));
      return runs >= 0 ? runs : phases.findIndex((p) => works(p) && begins(x) <= endOf(p));
    };
    for (let i = phases.length - 2; i >= 0; i--) {
      if (!phases[i]!.durationMs) idle.set(phases[i]!.id, Math.min(startOf(phases[i]!), startOf(phases[i + 1]!)));
    }
    const order = new Map(all.map((x) => [x, phaseOf(x)]));
    const rank = (x: Execution | Activity | Hold): number => (order.get(x)! < 0 && !("acquiredAt" in x) ? phases.length : order.get(x)!);
    const inside = all.sort((a, b) => rank(a) - rank(b) || Number(phases.includes(b as Activity)) - Number(phases.includes(a as Activity)) || begins(a) - begins(b));
    for (const x of inside) {
      const phase = phases[order.get(x)!];
      const d = phase && phase !== x ? depth + 1 : depth;
      const parent = phase && phase !== x ? phase.id : id;
      if ("acquiredAt" in x) hold(x, d, parent);
      else if (isActivity(x)) leaf(x, d, parent);
      else {
        const e = x;
        spans.push({
          id: e.id, kind: "exec", depth: d, name: e.title || e.surface, extra: [e.title ? e.agent : "", e.attempt > 1 ? "attempt " + e.attempt : "", e.errorMessage ?? ""].filter(Boolean).join(" · "),
          start: ms(e.createdAt), end: e.endedAt ? ms(e.endedAt) : e.status === "running" || e.status === "waiting" || e.status === "parked" ? null : ms(e.createdAt),
          tone: toneOf("execution", e.status), cost: costOf(e), parent, children: 0, execution: e,
        });
        walk(e.id, d + 1);
      }
    }
  };
  for (const h of t.holds) if (!h.executionId && !owner(h)) hold(h, 0, null);
  walk(null, 0);
  const by = new Map(spans.map((s) => [s.id, s]));
  for (const s of spans) if (s.parent) by.get(s.parent)!.children++;
  return spans;
}

/** shownOf leaves out what is folded away. */
export function shownOf(spans: Span[], folded: ReadonlySet<string>): Span[] {
  if (!folded.size) return spans;
  const hidden = new Set<string>();
  return spans.filter((s) => {
    if (s.parent && (folded.has(s.parent) || hidden.has(s.parent))) {
      hidden.add(s.id);
      return false;
    }
    return true;
  });
}

/** Axis maps times to shares of the width. A wait that is more than half of the whole is cut. */
interface Axis {
  from: number;
  to: number;
  cut: { from: number; to: number } | null;
  at: (time: number) => number; // 0 to 1, cut off at the ends
  back: (share: number) => number;
}

const cutShare = 0.06;

export function axisOf(spans: Span[], now: number, zoom: [number, number] | null): Axis {
  const first = Math.min(...spans.map((s) => s.start));
  const final = Math.max(...spans.map((s) => s.end ?? now), first + 1);
  const [from, to] = zoom ?? [first, first + (final - first) * 1.03];
  let cut: Axis["cut"] = null;
  if (!zoom) {
    const busy = spans.filter((s) => (s.kind === "model" || s.kind === "tool") && s.tone !== "person").map((s) => [s.start, s.end ?? now] as const).sort((a, b) => a[0] - b[0]);
    let covered = first;
    for (const [a, b] of [...busy, [final, final] as const]) {
      if (a - covered > (final - first) / 2 && a - covered > 60_000) cut = { from: covered + (a - covered) * 0.02, to: a - (a - covered) * 0.02 };
      covered = Math.max(covered, b);
    }
  }
  const length = to - from - (cut ? cut.to - cut.from : 0);
  const gap = cut ? cutShare : 0;
  const at = (time: number): number => {
    let share: number;
    if (!cut || time <= cut.from) share = ((time - from) / length) * (1 - gap);
    else if (time >= cut.to) share = ((time - from - (cut.to - cut.from)) / length) * (1 - gap) + gap;
    else share = ((cut.from - from) / length) * (1 - gap) + ((time - cut.from) / (cut.to - cut.from)) * gap;
    return Math.max(0, Math.min(1, share));
  };
  const back = (share: number): number => {
    if (!cut) return from + share * (to - from);
    const edge = ((cut.from - from) / length) * (1 - gap);
    if (share <= edge) return from + (share / (1 - gap)) * length;
    if (share >= edge + gap) return from + ((share - gap) / (1 - gap)) * length + (cut.to - cut.from);
    return cut.from + ((share - edge) / gap) * (cut.to - cut.from);
  };
  return { from, to, cut, at, back };
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000];

/** ticksOf are the lines of an axis, with their words. */
export function ticksOf(axis: Axis, first: number): { at: number; text: string }[] {
  const length = axis.to - axis.from - (axis.cut ? axis.cut.to - axis.cut.from : 0);
  const step = steps.find((s) => length / s <= 6) ?? 86_400_000;
  const ticks: { at: number; text: string }[] = [];
  for (let t = Math.ceil((axis.from - first) / step) * step; first + t < axis.to && ticks.length < 40; t += step) {
    const time = first + t;
    if (axis.cut && time > axis.cut.from && time < axis.cut.to) {
      t = Math.floor((axis.cut.to - first) / step) * step;
      continue;
    }
    const at = axis.at(time);
    if (t > 0 && (at > 0.95 || (axis.cut && Math.abs(at - axis.at(axis.cut.from) - cutShare / 2) < 0.1))) continue; // no room for its words
    ticks.push({ at, text: t === 0 ? "0" : t < 1000 ? t + " ms" : t < 120_000 ? t / 1000 + " s" : step < 60_000 ? fmt.countdown(t) : fmt.duration(t) });
  }
  return ticks;
}
