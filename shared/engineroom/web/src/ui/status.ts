// Which tone and which word each status of the API has. One table for the whole page; a test in Go
// compares it with the enums of the OpenAPI description.

export type Tone = "active" | "queued" | "person" | "done" | "warn" | "failed" | "quiet";

type Table = Record<string, readonly [Tone, string]>;

const table = {
  task: {
    PENDING: ["queued", "Pending"], ASSIGNED: ["queued", "Assigned"], RUNNING: ["active", "Running"], PAUSED: ["quiet", "Paused"],
    COMPLETED: ["done", "Completed"], FAILED: ["failed", "Failed"], ABORTED: ["warn", "Retrying"], ARCHIVED: ["quiet", "Archived"],
    CANCELLED: ["quiet", "Cancelled"],
  },
  agent: {
    IDLE: ["queued", "Idle"], WORKING: ["active", "Working"], DEGRADED: ["warn", "Degraded"], ERROR: ["failed", "Error"],
    DRAINING: ["quiet", "Draining"], TERMINATED: ["quiet", "Terminated"],
  },
  execution: {
    running: ["active", "Running"], waiting: ["person", "Waiting"], parked: ["quiet", "Parked"], completed: ["done", "Completed"],
    failed: ["failed", "Failed"], cancelled: ["quiet", "Cancelled"], stalled: ["warn", "Stalled"], skipped: ["quiet", "Skipped"],
  },
  step: {
    started: ["active", "Running"], succeeded: ["done", "Success"], failed: ["failed", "Failed"], uncertain: ["warn", "Uncertain"],
  },
  activity: {
    success: ["done", "Success"], error: ["failed", "Error"], pending_approval: ["person", "Needs approval"], skipped: ["quiet", "Skipped"],
  },
  approval: {
    pending: ["person", "Waits for you"], approved: ["done", "Approved"], rejected: ["quiet", "Rejected"],
    expired: ["warn", "Expired"], executed: ["done", "Executed"], call_failed: ["failed", "Call failed"],
  },
  message: {
    queued: ["queued", "Queued"], ready: ["queued", "Ready"], sending: ["active", "Sending"], sent: ["done", "Sent"],
    failed: ["failed", "Failed"], superseded: ["quiet", "Superseded"], expired: ["warn", "Expired"],
    uncertain: ["warn", "Uncertain"], dead: ["failed", "Dead"],
  },
  delivery: {
    received: ["active", "Received"], working: ["active", "Working"], done: ["done", "Done"], failed: ["warn", "Retrying"],
    parked: ["failed", "Parked"], pending: ["queued", "Pending"], sending: ["active", "Sending"], delivered: ["done", "Delivered"],
    dead: ["failed", "Spent"], queued: ["queued", "Queued"],
  },
  skill: {
    enabled: ["done", "Enabled"], disabled: ["quiet", "Disabled"], self_healing: ["warn", "Disabled by self-healing"],
  },
  automation: {
    enabled: ["done", "Enabled"], disabled: ["quiet", "Disabled"], self_healing: ["warn", "Disabled by self-healing"],
  },
  heal: {
    active: ["warn", "Disabled by self-healing"], probing: ["active", "Probing"], restored: ["done", "Restored"],
    undone: ["quiet", "Undone"], superseded: ["quiet", "Superseded"],
  },
  lane: {
    held: ["active", "Held"], free: ["queued", "Free"], stale: ["warn", "Stale"], running: ["active", "Held"],
    released: ["done", "Released"], expired: ["warn", "Expired"], forced: ["warn", "Forced"],
  },
  thread: {
    active: ["active", "Held"], held: ["active", "Held"], free: ["queued", "Free"], stale: ["warn", "Stale"], parked: ["quiet", "Parked"],
  },
  objective: {
    active: ["active", "Active"], paused: ["quiet", "Paused"], completed: ["done", "Completed"],
  },
  plan: {
    pending: ["queued", "To do"], done: ["done", "Done"], failed: ["failed", "Failed"],
  },
  circuit: {
    open: ["failed", "Open"], half_open: ["active", "Probing"], paused: ["person", "Refuses us"], closed: ["done", "Closed"],
  },
  health: {
    healthy: ["done", "Healthy"], degraded: ["warn", "Degraded"], unhealthy: ["failed", "Unhealthy"],
  },
  beat: {
    working: ["active", "Working"], idle: ["queued", "Idle"], stopped: ["failed", "Stopped"], not_working: ["failed", "Not working"],
  },
} as const satisfies Record<string, Table>;

export type Kind = keyof typeof table;

/** toneOf is the tone of a status; what the table does not know is quiet. */
export const toneOf = (kind: Kind, value: string): Tone => (table[kind] as Table)[value]?.[0] ?? "quiet";

/** wordOf is the word of a status; what the table does not know is shown as it is. */
export const wordOf = (kind: Kind, value: string): string => (table[kind] as Table)[value]?.[1] ?? value;
