import { effect, signal } from "@preact/signals";
import { api, Problem } from "./api";
import { freeze } from "./fmt";
import { connection, listen } from "./live";
import type { Overview } from "./types";

/** overview is what the header of every page and the first page show. */
export const overview = signal<Overview | null>(null);

/** overviewFailed is why it could not be read. */
export const overviewFailed = signal<Problem | null>(null);

const apart = 1500; // milliseconds between two reads that events ask for
const atLeast = 20_000;

let readAt = -Infinity;
let timer = 0;
let asking = false;

async function read(): Promise<void> {
  if (asking) return;
  asking = true;
  readAt = performance.now();
  try {
    overview.value = await api.get<Overview>("/overview");
    overviewFailed.value = null;
  } catch (error) {
    if (error instanceof Problem) overviewFailed.value = error;
  } finally {
    asking = false;
  }
}

/** refresh reads it anew, soon. */
export function refresh(): void {
  if (timer) return;
  timer = window.setTimeout(() => {
    timer = 0;
    void read();
  }, Math.max(0, readAt + apart - performance.now()));
}

/** keep keeps the overview up to date from now on. A hidden tab keeps its title right too. */
export function keep(): void {
  void read();
  listen([], refresh);
  setInterval(() => {
    if (performance.now() - readAt > atLeast) refresh();
  }, 5000);
  effect(() => {
    if (connection.value.mode !== "stale") freeze(false);
  });
}
