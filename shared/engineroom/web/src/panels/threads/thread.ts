import { api, serverNow } from "../../app/api";
import type { MessageItem, OutgoingItem, ThreadExplanation, ThreadItem, ThreadLock } from "../../app/api.gen";
import type { Page } from "../../app/types";

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

const most = 10; // pages of 200 messages

/** messagesOf reads the messages at the path of a thread, the oldest first. more says that there are still later ones. */
export async function messagesOf(path: string): Promise<{ messages: Message[]; more: boolean }> {
  const messages: Message[] = [];
  let cursor: string | null | undefined = "";
  for (let n = 0; n < most && cursor !== null && cursor !== undefined; n++) {
    const page: Page<Message> = await api.get<Page<Message>>(path, { limit: 200, cursor });
    messages.push(...page.items);
    cursor = page.nextCursor;
  }
  return { messages, more: Boolean(cursor) };
}
