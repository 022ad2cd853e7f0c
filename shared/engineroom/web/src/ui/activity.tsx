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

/** gist is what an activity was about, in a few words. All of it is somebody's text. */
export const gist = (a: Activity): string =>
  (a.errorMessage || a.summary || a.title || flat(a.output) || flat(a.input)).replace(/\s+/g, " ").slice(0, 300);

/** costOf is what a row cost in micro-dollars, if that is known. */
export const costOf = (a: { costMicroUsd?: number | null; costUsd?: number | null }): number | null =>
  a.costMicroUsd ?? (a.costUsd === undefined || a.costUsd === null ? null : Math.round(a.costUsd * 1e6));

/** nameOf is the skill, or the kind of a model call. */
export const nameOf = (a: Activity): string => a.skillName || a.model || (a.kind === "model" ? "model" : a.surface);

const columns: Column<Activity>[] = [
  { key: "time", head: "Time", width: "84px", class: "muted", cell: (a) => <Time at={a.createdAt} /> },
  { key: "status", head: <span class="sr">Status</span>, width: "30px", class: "glyph", cell: (a) => <Status kind="activity" value={a.status} bare /> },
  { key: "surface", head: "Surface", width: "100px", wide: true, cell: (a) => <Tag>{a.surface}</Tag> },
  { key: "what", head: "What", cell: (a) => <><b class="nb">{nameOf(a)}</b> <span class={a.status === "error" ? "err" : "muted"}>{gist(a)}</span></> },
  { key: "agent", head: "Agent", width: "120px", wide: true, class: "muted", cell: (a) => a.agent },
  { key: "took", head: "Took", width: "84px", right: true, wide: true, cell: (a) => fmt.duration(a.durationMs) },
  { key: "tokens", head: "Tokens", width: "80px", right: true, wide: true, class: "muted", cell: (a) => (a.tokenUsage?.totalTokens ? fmt.tokens(a.tokenUsage.totalTokens) : "") },
  { key: "cost", head: "Cost", width: "78px", right: true, wide: true, class: "muted", cell: (a) => { const c = costOf(a); return c ? fmt.money(c) : ""; } },
];

/** Activities is the table of activities. Its rows lead to their traces. */
export const Activities = (p: Omit<ListProps<Activity>, "columns" | "rowKey" | "label" | "href">) => (
  <List {...p} columns={columns} rowKey={(a) => a.id} label="Activity" href={(a) => href("traces/" + a.traceId)} />
);
