import { fmt } from "../../app/fmt";
import type { BudgetItem, BudgetSeries, Projection, UsageItem } from "../../app/api.gen";
export type { Projection };

export type Budget = BudgetItem;

export type Series = BudgetSeries;

export type Usage = UsageItem;

export const dayMs = 86_400_000;

// nameOf is what a budget is of, for people.
export function nameOf(b: Budget): string {
  if (b.scope === "global") return "Workspace";
  const [agent, surface] = (b.scopeId ?? "").split(":");
  if (b.scope === "agent" && surface === "hb") return `Agent ${agent}, beats`;
  return `${b.scope[0]!.toUpperCase()}${b.scope.slice(1)} ${b.scopeName ?? fmt.short(b.scopeId ?? "", 24)}`;
}

// periodOf is the time that a budget is for: "today", "1 Nov – 1 Dec".
export function periodOf(b: Budget, now: number): string {
  const from = Date.parse(b.periodStart);
  const to = Date.parse(b.periodEnd);
  if (to - from <= dayMs && from <= now && now < to) return "today";
  return `${fmt.day(from)} – ${fmt.day(to)}`;
}

// evenRate is the tokens a day that would last until the end of the period.
export function evenRate(b: Budget, now: number): number {
  const days = (Date.parse(b.periodEnd) - now) / dayMs;
  return days > 0 ? Math.floor(Math.max(0, b.remaining) / days) : 0;
}

// lasts says until when the tokens last.
export function lasts(b: Budget, p?: Projection): string {
  if (b.remaining <= 0) return "is spent";
  if (!p?.projectedExhaustionDate) return "past the period";
  const end = Date.parse(p.projectedExhaustionDate);
  return end >= Date.parse(b.periodEnd) ? "past the period" : fmt.time(end, false);
}

// adviceOf is the tone and the words of what the projection advises.
export function adviceOf(b: Budget, p?: Projection): ["done" | "warn" | "failed" | "quiet", string] {
  if (b.remaining <= 0) return ["failed", `Paused until ${fmt.time(b.periodEnd, false)}`];
  if (!p) return ["quiet", "…"];
  return p.recommendation === "STOP" ? ["failed", "Stop"] : p.recommendation === "THROTTLE" ? ["warn", "Throttle"] : ["done", "Continue"];
}
