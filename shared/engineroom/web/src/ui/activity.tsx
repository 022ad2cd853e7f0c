import type { Activity } from "../app/types";
import { href } from "../app/base";
import { fmt } from "../app/fmt";
import { List, type Column, type ListProps } from "./list";
import { Status, Tag, Time } from "./marks";

const flat = (v: unknown): string => {
  if (v === null || v === undefined) return "";
  if (typeof v === "string") return v;
  if (typeof v !== "object") return String(v);
  if (Array.isArray(v)) return v.length === 1 ? flat(v[0]) : fmt.plural(v.length, "item");
  return Object.entries(v as Record<string, unknown>).filter(([, x]) => x !== null && x !== "" && x !== undefined).slice(0, 4)
    .map(([k, x]) => `${k}: ${typeof x === "object" ? flat(x).slice(0, 60) : String(x).slice(0, 80)}`).join(" · ");
};

// ofModel says what the model answered: what it asks for, or its words.
const ofModel = (a: Activity): string => {
  const out = (a.output ?? {}) as { calls?: unknown; text?: unknown };
  const calls = Array.isArray(out.calls) ? out.calls.map(String) : typeof out.calls === "string" ? [out.calls] : [];
  if (calls.length) return `asks for ${calls.length === 1 ? calls[0] : fmt.plural(calls.length, "call")}`;
  return typeof out.text === "string" ? out.text : "answers";
};

// ofPhase says how much a phase of a beat has done.
const ofPhase = (a: Activity): string => {
  const out = (a.output ?? {}) as { considered?: number; done?: number; failed?: number; left?: number; outcome?: string; reason?: string };
  if (out.outcome) return out.outcome + (out.left ? `, ${out.left} left` : "");
  if (out.reason) return out.reason;
  if (typeof out.considered !== "number") return flat(a.output);
  if (!out.considered) return "nothing to do";
  return `${out.done ?? 0} of ${out.considered}` + (out.failed ? `, ${out.failed} failed` : "") + (out.left ? `, ${out.left} left` : "");
};

/** kindOf tells a model call from a skill call, a phase of a beat, and what an execution says as it ends. */
export function kindOf(a: Activity): "model" | "tool" | "phase" | "end" {
  if (a.skillName === "(model)" || a.kind === "model") return "model";
  if (a.kind === "phase" || a.skillName?.startsWith("heartbeat.")) return "phase";
  if (a.skillName === "heartbeat" || a.skillName === "reason" || (a.skillName === a.surface && !a.skillId)) return "end";
  return a.skillName || !a.model ? "tool" : "model";
}

/** gist is what an activity was about, in a few words. All of it is somebody's text. */
export const gist = (a: Activity): string =>
  (a.errorMessage || (kindOf(a) === "model" ? ofModel(a) : (kindOf(a) === "tool" ? flat(a.output) : ofPhase(a)) || flat(a.input))).replace(/\s+/g, " ").slice(0, 300);

/** costOf is what a row cost in micro-dollars, if that is known. */
export const costOf = (a: { costMicroUsd?: number | null; costUsd?: number | null }): number | null =>
  a.costMicroUsd ?? (a.costUsd === undefined || a.costUsd === null ? null : Math.round(a.costUsd * 1e6));

/** nameOf is the skill, or the kind of a model call. */
export const nameOf = (a: Activity): string =>
  kindOf(a) === "model" ? a.model || "model" : kindOf(a) === "phase" ? a.skillName!.replace(/^heartbeat\./, "") : a.skillName || a.surface;

const columns: Column<Activity>[] = [
  { key: "time", head: "Time", width: "96px", class: "muted", cell: (a) => <Time at={a.createdAt} /> },
  { key: "status", head: <span class="sr">Status</span>, width: "28px", class: "glyph", cell: (a) => <Status kind="activity" value={a.status} bare /> },
  { key: "surface", head: "Surface", width: "100px", wide: true, cell: (a) => <Tag>{a.surface}</Tag> },
  { key: "what", head: "What", cell: (a) => <><b class="nb">{nameOf(a)}</b> <span class={a.status === "error" ? "err" : "muted"}>{gist(a)}</span></> },
  { key: "agent", head: "Agent", width: "120px", wide: "desk", class: "muted", cell: (a) => a.agent },
  { key: "took", head: "Took", width: "84px", right: true, wide: true, cell: (a) => fmt.duration(a.durationMs) },
  { key: "tokens", head: "Tokens", width: "80px", right: true, wide: true, class: "muted", cell: (a) => (a.tokenUsage?.totalTokens ? fmt.tokens(a.tokenUsage.totalTokens) : "") },
  { key: "cost", head: "Cost", width: "78px", right: true, wide: true, class: "muted", cell: (a) => { const c = costOf(a); return c ? fmt.money(c) : ""; } },
];

/** Activities is the table of activities. Its rows lead to their traces. */
export const Activities = (p: Omit<ListProps<Activity>, "columns" | "rowKey" | "label" | "href">) => (
  <List {...p} columns={columns} rowKey={(a) => a.id} label="Activity" href={(a) => href("traces/" + a.traceId)} />
);
