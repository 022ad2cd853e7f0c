import { effect, signal } from "@preact/signals";
import { api, Problem } from "./api";
import { freeze } from "./fmt";
import { connection, listen } from "./live";
import { seg } from "./base";
import type { OpenFailure } from "./api.gen";
import type { Overview } from "./types";

/** overview is what the header of every page and the first page show. */
export const overview = signal<Overview | null>(null);

/** overviewFailed is why it could not be read. */
export const overviewFailed = signal<Problem | null>(null);

const apart = 1500; // milliseconds between two reads
const calm = 5000; // between two that events ask for, and up to a second more: not all tabs read at once
const kept = 1100; // the server answers what it has read less than a second ago
const atLeast = 60_000; // what only time changes: clocks count down by themselves
const longest = 15_000; // between two reads that fail

let readAt = -Infinity;
let timer = 0;
let dueAt = Infinity;
let asking = false;
let failures = 0; // in a row
let again = false;

async function read(): Promise<void> {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  readAt = performance.now();
  try {
    overview.value = await api.get<Overview>("/overview", undefined, AbortSignal.timeout(15_000));
    overviewFailed.value = null;
    failures = 0;
  } catch (error) {
    overviewFailed.value = error instanceof Problem ? error : new Problem(0, "failed", "The overview could not be read", String(error), "");
    readAfter(Math.min(longest, 2500 * 2 ** failures++));
  } finally {
    asking = false;
    if (again) refresh();
    again = false;
  }
}

// readAfter reads it anew when the last read is some milliseconds ago, and no sooner than least from now.
function readAfter(wait: number, least = 0): void {
  const at = Math.max(performance.now() + least, readAt + wait);
  if (at >= dueAt) return;
  clearTimeout(timer);
  dueAt = at;
  timer = window.setTimeout(() => {
    dueAt = Infinity;
    void read();
  }, at - performance.now());
}

/** refresh reads it anew, soon. */
export const refresh = (): void => readAfter(apart);

/** keep keeps the overview up to date from now on. A hidden tab keeps its title right too. */
export function keep(): void {
  void read();
  listen([], () => readAfter(calm + Math.random() * 1000, kept));
  setInterval(() => {
    if (performance.now() - readAt > atLeast) refresh();
  }, 5000);
  effect(() => {
    if (connection.value.mode !== "stale") freeze(false);
  });
}

/** whereOf is the page on which one sees what failed. */
export const whereOf = (f: OpenFailure): string =>
  f.kind === "task" ? "tasks/" + seg(f.id) : f.threadId ? "threads/" + seg(f.threadId) : f.traceId ? "traces/" + seg(f.traceId) : f.kind === "delivery" ? "webhooks/" + seg(f.id) : "activity?status=error";
