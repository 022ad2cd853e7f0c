import type { Tone } from "../../ui";
import type { TaskExplanation, TaskGraph, TaskItem, TaskLogItem, TaskReason } from "../../app/api.gen";

/** Task is a task of the API; a single one has more than a listed one. */
export type Task = TaskItem;

export type Reason = TaskReason;

export type Why = TaskExplanation;

export type LogRow = TaskLogItem;

export type Graph = TaskGraph;

/** statusOf is a task's status for people: an aborted task that is never requeued is cancelled. */
export const statusOf = (t: { status: string; cancelled?: boolean; reasonCode?: string | null }): string =>
  t.status === "ABORTED" && isCancelled(t) ? "CANCELLED" : t.status;

// A node of a graph says by its reason that it was cancelled.
const isCancelled = (t: { cancelled?: boolean; reasonCode?: string | null }): boolean => t.cancelled || t.reasonCode === "cancelled";

// The reasons why tasks wait, in the order of the board.
const reasons: readonly (readonly [code: string, title: string])[] = [
  ["dependency_failed", "What it depends on failed"],
  ["dependency", "Blocked by a task"],
  ["thread", "Its thread is busy"],
  ["budget", "Budget is spent"],
  ["no_agent", "No free agent"],
  ["agents_full", "Agents are full"],
  ["backoff", "Backoff"],
  ["paused", "Paused"],
];

/** reasonTitle is the heading of a group of tasks that wait for the same kind of thing. */
export const reasonTitle = (code: string): string => reasons.find(([c]) => c === code)?.[1] ?? code.replaceAll("_", " ");

/** reasonOptions are the reasons as the choices of a filter. */
export const reasonOptions = reasons;

/** reasonOf is why a task waits; where the server did not say, its status tells enough. */
const reasonOf = (t: Task): string =>
  t.reasonCode || (t.status === "PAUSED" ? "paused" : t.status === "ABORTED" ? "backoff" : t.dependsOn.length ? "dependency" : "no_agent");

/** byReason groups tasks that wait, in the order of the board. */
export function byReason(tasks: readonly Task[]): [code: string, tasks: Task[]][] {
  const groups = new Map<string, Task[]>(reasons.map(([code]) => [code, []]));
  for (const t of tasks) {
    const code = reasonOf(t);
    if (!groups.has(code)) groups.set(code, []);
    groups.get(code)!.push(t);
  }
  return [...groups].filter(([, list]) => list.length > 0);
}

const open = new Set(["PENDING", "ASSIGNED", "RUNNING", "PAUSED"]);

/** isOpen reports whether a task can still be done by itself. */
export const isOpen = (t: { status: string; cancelled?: boolean; reasonCode?: string | null }): boolean =>
  open.has(t.status) || (t.status === "ABORTED" && !isCancelled(t));

/** toneOfLevel is the tone of a row of a log. */
export const toneOfLevel = (level: string): Tone => (level === "ERROR" || level === "CRITICAL" ? "failed" : level === "WARN" ? "warn" : "quiet");
