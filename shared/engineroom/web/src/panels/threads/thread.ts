export interface Lock {
  state: "active" | "stale";
  executionId: string;
  stack: string[];
  lockedAt: string;
  ageMs: number;
  parkedBy?: string;
  parkedUntil?: string;
}

export interface Thread {
  id: string;
  channel: string;
  address: string;
  policy: string;
  lock?: Lock | null;
  queued: number;
  createdAt: string;
  updatedAt: string;
  expiresAt?: string | null;
  lastMessage?: { role: string; text: string; at: string } | null;
  holder?: { executionId: string; agent: string; expiresAt: string; stale: boolean } | null;
}

export interface Why {
  held: boolean;
  summary: string;
  lock?: Lock | null;
  doing?: string;
  freesAt?: string | null;
  queued: number;
  waiting: { messageId: string; executionId?: string; since: string; expiresAt?: string }[];
}

export interface Message {
  id: string;
  role: string;
  body: string;
  executionId?: string;
  createdAt: string;
}

export interface Outgoing {
  id: string;
  body: string;
  status: string;
  executionId?: string;
  attempts: number;
  lastError?: string;
  expiresAt?: string | null;
  createdAt: string;
  sentAt?: string | null;
}

// stateOf is the state of a thread's lock as the status table knows it.
export const stateOf = (t: { lock?: Lock | null }) => (!t.lock ? "free" : t.lock.parkedBy ? "parked" : t.lock.state === "stale" ? "stale" : "held");

// waits says whether a message may still be sent by itself.
export const waits = (m: Outgoing) => ["queued", "ready", "sending"].includes(m.status);

// resendable are the messages that a person may send again.
export const resendable = (m: Outgoing) => ["failed", "uncertain", "expired"].includes(m.status);

// ordinal writes a position: 1st, 2nd, 11th.
export function ordinal(n: number): string {
  const last = n % 100 > 10 && n % 100 < 14 ? 0 : n % 10;
  return n + (["th", "st", "nd", "rd"][last] ?? "th");
}
