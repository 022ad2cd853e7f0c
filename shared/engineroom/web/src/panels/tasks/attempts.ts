import type { LogRow } from "./types";

export interface Attempt {
  number: number;
  agentId?: string;
  from: string;
  until?: string;
  status?: string; // in which it left the task
  error?: string;
}

const over = new Set(["COMPLETED", "FAILED", "ABORTED", "PAUSED", "PENDING"]);

/** attemptsOf tells the attempts of a task from its log, the latest first. */
export function attemptsOf(log: readonly LogRow[]): Attempt[] {
  const found = new Map<number, Attempt>();
  for (const row of [...log].reverse()) {
    if (!row.attempt) continue;
    let a = found.get(row.attempt);
    if (!a) {
      if (row.newStatus !== "ASSIGNED" && row.newStatus !== "RUNNING") continue; // the log begins later
      found.set(row.attempt, (a = { number: row.attempt, agentId: row.agentId, from: row.createdAt }));
    }
    a.agentId ??= row.agentId;
    if (!a.until && row.newStatus && over.has(row.newStatus)) {
      a.until = row.createdAt;
      a.status = row.newStatus;
      if (row.newStatus !== "COMPLETED") a.error = row.message;
    }
  }
  return [...found.values()].reverse();
}
