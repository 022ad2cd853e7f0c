import { serverNow } from "../../app/api";
import type { MessageItem, OutgoingItem, ThreadExplanation, ThreadItem, ThreadLock } from "../../app/api.gen";

export type Lock = ThreadLock;

export type Thread = ThreadItem;

export type Why = ThreadExplanation;

export type Message = MessageItem;

export type Outgoing = OutgoingItem;

// stateOf is the state of a thread's lock as the status table knows it.
export const stateOf = (t: { lock?: Lock | null }) => (!t.lock ? "free" : t.lock.parkedBy ? "parked" : t.lock.state === "stale" ? "stale" : "held");

// waits says whether a message may still be sent by itself.
export const waits = (m: Outgoing) => ["queued", "ready", "sending"].includes(m.status);

// resendable are the messages that a person may send again, while they have not expired.
export const resendable = (m: Outgoing) => ["failed", "uncertain"].includes(m.status) && !(m.expiresAt && Date.parse(m.expiresAt) < serverNow());

// ordinal writes a position: 1st, 2nd, 11th.
export function ordinal(n: number): string {
  const last = n % 100 > 10 && n % 100 < 14 ? 0 : n % 10;
  return n + (["th", "st", "nd", "rd"][last] ?? "th");
}

/** nameOf is who a conversation is with. One that a client began has its own id as its address. */
export const nameOf = (t: Thread): string => (t.address === t.id ? `${t.channel.charAt(0).toUpperCase()}${t.channel.slice(1)} …${t.id.slice(-6)}` : t.address);
