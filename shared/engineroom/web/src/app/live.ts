// What happens, as it happens: one stream for all tabs of a browser. The tab that holds the lock
// reads it and passes it on; the others take over when that tab is closed.

import { signal } from "@preact/signals";
import { known, me, Problem, send, signedOut, url } from "./api";
import { freeze } from "./fmt";
import type { Happened } from "./types";

/** Connection is how news arrive. since says from when on they do not, retryAt when the page asks again. */
interface Connection {
  mode: "connecting" | "live" | "polling" | "stale";
  since: number;
  retryAt: number;
}

export const connection = signal<Connection>({ mode: "connecting", since: Date.now(), retryAt: 0 });

type Listener = (events: Happened[], reset: boolean) => void;
const listeners = new Set<{ wants: (kind: string) => boolean; tell: Listener }>();

/**
 * listen calls tell with the events of some kinds, in batches: at most four a second, none while the
 * tab is hidden. A kind that ends in "." or ".*" means all that begin with it; no kinds mean all. With
 * reset true the page has missed something and reads anew. listen returns what ends it.
 */
export function listen(kinds: readonly string[], tell: Listener): () => void {
  const exact = new Set(kinds);
  const begins = kinds.filter((k) => /\.\*?$/.test(k)).map((k) => k.replace(/\*$/, ""));
  const listener = { wants: (kind: string) => !kinds.length || exact.has(kind) || begins.some((b) => kind.startsWith(b)), tell };
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let pending: Happened[] = [];
let missed = false;
let flushing = 0;
let flushedAt = 0;
const most = 2000; // events kept for a hidden tab

function take(events: Happened[], reset: boolean): void {
  missed ||= reset;
  pending.push(...events);
  if (pending.length > most) {
    pending = [];
    missed = true;
  }
  schedule();
}

function schedule(): void {
  if (flushing || document.hidden || (!pending.length && !missed)) return;
  const wait = Math.max(0, flushedAt + 250 - performance.now());
  flushing = window.setTimeout(() => requestAnimationFrame(flush), wait);
}

function flush(): void {
  const events = pending;
  const reset = missed;
  pending = [];
  missed = false;
  flushing = 0;
  flushedAt = performance.now();
  for (const l of [...listeners]) {
    const wanted = events.filter((e) => l.wants(e.kind));
    if (wanted.length || reset) l.tell(wanted, reset);
  }
}

document.addEventListener("visibilitychange", schedule);

type News = { events?: Happened[]; reset?: boolean; connection?: Connection; last?: string };
let channel: BroadcastChannel | null = null; // to the other tabs of the workspace

function tell(news: News): void {
  channel?.postMessage({ ...news, last });
  hear(news);
}

function hear(news: News): void {
  last = news.last ?? last; // who leads next goes on from there
  if (news.connection) {
    // What failed while nothing could be read is read anew.
    if (connection.peek().mode === "stale" && news.connection.mode !== "stale") take([], true);
    connection.value = news.connection;
    freeze(news.connection.mode === "stale");
  }
  if (news.events?.length || news.reset) take(news.events ?? [], news.reset ?? false);
}

let last = ""; // id of the last event
let toldAt = Date.now(); // when the leading tab told something, for a tab that follows
// What the leading tab knows.
let heardAt = Date.now();
let failures = 0;
let refused = 0; // requests in a row that could not be sent: nobody listens
let leading = false;
let signedAt = 0; // when it last let the others know that it hears
let wake: (() => void) | null = null;

const pollEvery = 5000;
const streamAgain = 30_000;
const staleAfter = 15_000; // an idle stream sends a comment every 10 s
const signEvery = 5000;
const leaderLostAfter = 20_000; // a sign every 10 s, and the leading tab says by itself that it hears nothing

const pause = (ms: number): Promise<void> =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    wake = () => {
      clearTimeout(timer);
      done();
    };
  });

/** retryNow asks again without waiting. */
export function retryNow(): void {
  channel?.postMessage({ wake: true });
  wake?.();
}

function state(mode: Connection["mode"], retryAt = 0): void {
  const now = connection.peek();
  if (now.mode === mode && now.retryAt === retryAt) return;
  const since = mode === "stale" ? (now.mode === "stale" ? now.since : heardAt) : Date.now();
  tell({ connection: { mode, since, retryAt } });
}

function heard(): void {
  heardAt = Date.now();
  failures = refused = 0;
  if (leading && heardAt - signedAt > signEvery) {
    signedAt = heardAt;
    channel?.postMessage({ last });
  }
}

const unsent = (error: unknown): void => {
  refused = error instanceof Problem && error.code === "unreachable" ? refused + 1 : 0;
};

// stream reads the event stream until it ends. It returns whether it ended as it should.
async function stream(): Promise<boolean> {
  const quiet = new AbortController();
  const offline = (): void => quiet.abort();
  addEventListener("offline", offline);
  let silence = 0;
  const expect = (): void => {
    clearTimeout(silence);
    silence = window.setTimeout(() => quiet.abort(), staleAfter + 100); // timers may be early
  };
  expect();
  try {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (last) headers["Last-Event-ID"] = last;
    const response = await send("GET", "/events", { headers, signal: quiet.signal });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    heard();
    state("live");
    let buffer = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return true;
      heard();
      expect();
      buffer += value;
      const blocks = buffer.split("\n\n");
      buffer = blocks.pop()!;
      apply(blocks);
    }
  } catch (error) {
    unsent(error);
    if (error instanceof Problem && error.status === 400) last = ""; // the cursor is of no use any more
    return false;
  } finally {
    clearTimeout(silence);
    removeEventListener("offline", offline);
    quiet.abort();
  }
}

function apply(blocks: string[]): void {
  const events: Happened[] = [];
  let reset = false;
  for (const block of blocks) {
    let id = "", kind = "", data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("id: ")) id = line.slice(4);
      else if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
    }
    if (id) last = id;
    if (kind === "reset") reset = true;
    else if (kind && data) events.push(JSON.parse(data) as Happened);
  }
  if (events.length || reset) tell({ events, reset });
}

// poll asks once for what has happened since, and passes it on.
async function poll(pass: (news: News) => void, patience = 10_000): Promise<void> {
  const response = await send("GET", "/events", { params: { cursor: last }, signal: AbortSignal.timeout(patience) });
  const page = (await response.json()) as { items: Happened[]; nextCursor: string; reset?: boolean };
  last = page.nextCursor;
  heard();
  if (page.items.length || page.reset) pass({ events: page.items, reset: page.reset });
}

// lost says that the page is not live, once nothing was heard for too long.
function lost(): void {
  const now = Date.now();
  if (now - heardAt >= staleAfter || refused > 1 || !navigator.onLine) state("stale", now + pollEvery);
}

async function lead(): Promise<void> {
  let streamedAt = -Infinity;
  for (;;) {
    if (signedOut.peek()) return;
    if (failures < 2 || performance.now() - streamedAt > streamAgain) {
      streamedAt = performance.now();
      if (await stream()) {
        await pause(connection.peek().mode === "live" && !document.hidden ? 250 : 2000);
        continue;
      }
      failures++;
      lost();
      if (failures < 2) {
        await pause(1000);
        continue;
      }
    }
    try {
      await poll(tell);
      failures = 2; // polling answers, the stream does not
      state("polling");
    } catch (error) {
      failures++;
      unsent(error);
      lost();
    }
    await pause(pollEvery);
  }
}

// alone reads for this tab only, while the leading tab sleeps: it says nothing for a while.
async function alone(): Promise<void> {
  const quiet = (): boolean => !leading && !document.hidden && Date.now() - toldAt > leaderLostAfter;
  for (;;) {
    await new Promise((done) => setTimeout(done, pollEvery));
    if (leading || signedOut.peek()) return;
    if (!quiet()) continue;
    try {
      await poll((news) => { if (quiet()) hear(news); }, pollEvery);
      if (quiet()) hear({ connection: { mode: "polling", since: Date.now(), retryAt: 0 } });
    } catch {
      if (quiet()) hear({ connection: { mode: "stale", since: toldAt, retryAt: Date.now() + pollEvery } });
    }
  }
}

/** follow begins to follow what happens in the workspace. */
export async function follow(): Promise<void> {
  while (!(await known().then(() => true, (error: unknown) => { unsent(error); lost(); }))) {
    if (signedOut.peek()) return;
    await pause(pollEvery);
  }
  last ||= me.peek()!.cursor ?? ""; // of before the first reads: what happens from then on is not missed
  const name = `lk-live ${url("")} ${me.peek()!.workspaceId}`;
  const heardBy = "BroadcastChannel" in self ? new BroadcastChannel(name) : null;
  channel = heardBy;
  heardBy?.addEventListener("message", (event: MessageEvent<News & { wake?: boolean; hello?: boolean }>) => {
    if (event.data.wake) wake?.();
    else if (event.data.hello) {
      if (leading) heardBy?.postMessage({ connection: connection.peek(), last });
    } else {
      // The leading tab is awake again: it tells how it hears.
      if (Date.now() - toldAt > leaderLostAfter) heardBy?.postMessage({ hello: true });
      toldAt = Date.now();
      hear(event.data);
    }
  });
  heardBy?.postMessage({ hello: true });
  const begin = (): Promise<void> => {
    leading = true;
    addEventListener("offline", () => wake?.());
    addEventListener("online", () => wake?.());
    return lead();
  };
  if (channel && navigator.locks) {
    void navigator.locks.request(name, begin);
    void alone();
  } else void begin();
}
