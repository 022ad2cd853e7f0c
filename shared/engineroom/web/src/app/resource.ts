import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { api, Problem } from "./api";
import { query as asQuery, type Params } from "./base";
import { connection, listen } from "./live";
import type { Happened } from "./types";

export interface Resource<T> {
  data: T | undefined;
  error: Problem | null;
  loading: boolean; // nothing is on display yet, or what is belongs to other parameters
  stale: boolean; // the connection is lost
  readAt: number; // when the read of all of the data began, by performance.now
  reload: () => void;
}

export interface Watching<T> {
  /** kinds name the events upon which the data is read anew, or patched. None: only after a reset is it. */
  kinds?: readonly string[];
  /** patch applies events to the data. Where it returns undefined, the data is read anew. */
  patch?: (data: T, events: Happened[]) => T | undefined;
  /** news says how to read what some events tell of alone: with which parameters, null where it is nothing, and
   * how the answer goes into the data. Where merge returns undefined, all is read anew. */
  news?: (events: Happened[]) => { params: Params | null; merge: (data: T, answer: T) => T | undefined };
  /** read asks for the data in another way than by one request. */
  read?: (path: string, params: Params, signal: AbortSignal) => Promise<T>;
  /** only picks the events that matter. */
  only?: (event: Happened) => boolean;
  /** apart is how many milliseconds lie between two reads that events ask for; default 1000. */
  apart?: number | ((data: T | undefined) => number);
  /** every is the interval in milliseconds after which the data is read anew in any case. */
  every?: number;
}

// passes reports whether an answer says nothing about what was asked: it is asked again.
const passes = (p: Problem): boolean => p.status === 0 || p.status === 429 || p.status >= 500;

/**
 * useResource reads a route of the API and keeps what it has read up to date. A path of null reads
 * nothing. While the parameters change, the data before is kept; when the path does, it is not.
 */
export function useResource<T>(path: string | null, params?: Params | URLSearchParams, watching: Watching<T> = {}): Resource<T> {
  const key = path === null ? null : path + asQuery(params);
  const [state, set] = useState<{ key: string | null; path: string | null; data?: T; readAt: number; error: Problem | null }>({ key: null, path: null, readAt: 0, error: null });
  // told are the events that the next read is for; null: it reads all.
  const at = useRef({ told: null as Happened[] | null, run: 0, readAt: 0, timer: 0, asking: null as AbortController | null, again: false, failed: 0 });
  const latest = useRef({ path, params, watching });
  latest.current = { path, params, watching };
  const held = useRef(state);
  held.current = state;

  const read = useCallback(async (key: string) => {
    const a = at.current;
    a.asking?.abort();
    const asking = (a.asking = new AbortController());
    const run = ++a.run;
    a.readAt = performance.now();
    a.again = false;
    const { path, params, watching } = latest.current;
    const told = held.current.key === key && held.current.data !== undefined ? a.told : null;
    a.told = [];
    const news = told?.length ? watching.news?.(told) : undefined;
    try {
      if (news) {
        const answer = news.params && (await api.get<T>(path!, { ...(params as Params), ...news.params }, asking.signal));
        if (run !== a.run || !answer) return;
        const data = held.current.data === undefined ? undefined : news.merge(held.current.data, answer);
        if (data === undefined) {
          a.told = null;
          a.again = true;
        } else if (data !== held.current.data || held.current.error) set((s) => ({ ...s, data, error: null }));
        a.failed = 0;
        return;
      }
      const data = await (watching.read ?? api.get<T>)(path!, params as Params, asking.signal);
      if (run !== a.run) return;
      a.failed = 0;
      set({ key, path, data, readAt: a.readAt, error: null });
    } catch (error) {
      if (run !== a.run || asking.signal.aborted) return;
      a.told = null;
      const problem = error instanceof Problem ? error : new Problem(0, "failed", "The answer could not be read", String(error), "");
      const keeps = passes(problem);
      set((s) => ({ key, path, readAt: s.readAt, data: (keeps && s.key === key) || (problem.status === 0 && s.path === path) ? s.data : undefined, error: problem }));
      if (keeps) soon(key, Math.max(problem.retryAfter * 1000, Math.min(60_000, 2500 * 2 ** ++a.failed)));
    } finally {
      if (run === a.run) {
        a.asking = null;
        if (a.again) soon(key);
      }
    }
  }, []);

  const soon = useCallback((key: string, after = 0) => {
    const a = at.current;
    if (a.asking && !after) {
      a.again = true;
      return;
    }
    if (a.timer) return;
    const { apart: asked = 1000 } = latest.current.watching;
    const apart = typeof asked === "number" ? asked : asked(held.current.data);
    const wait = after || (apart > 1000 ? apart * (1 + Math.random() / 5) : apart); // not all tabs at once
    a.timer = window.setTimeout(() => {
      a.timer = 0;
      if (held.current.key === key || held.current.key === null) void read(key);
    }, Math.max(0, a.readAt + wait - performance.now()));
  }, []);

  useEffect(() => {
    if (key === null) {
      set({ key: null, path: null, readAt: 0, error: null });
      return;
    }
    const a = at.current;
    a.failed = 0;
    a.told = null;
    void read(key);
    const { kinds, every } = latest.current.watching;
    // What no event concerns is read anew after a reset all the same.
    const ends = listen(kinds ?? ["-"], (events, reset) => {
      const { patch, only } = latest.current.watching;
      const wanted = only ? events.filter(only) : events;
      if (!reset && !wanted.length) return;
      const now = held.current;
      if (!reset && patch && now.key === key && now.data !== undefined) {
        const data = patch(now.data, wanted);
        if (data !== undefined) {
          set((s) => (s.key === key ? { ...s, data } : s));
          return;
        }
      }
      if (reset && a.failed) { // it need not wait any longer to try again
        clearTimeout(a.timer);
        a.timer = 0;
      }
      if (reset || !latest.current.watching.news) a.told = null;
      else a.told?.push(...wanted);
      soon(key);
    });
    const timer = every ? window.setInterval(() => {
      if (document.hidden) return;
      a.told = null;
      soon(key);
    }, every) : 0;
    return () => {
      ends();
      clearInterval(timer);
      clearTimeout(a.timer);
      a.timer = 0;
      a.run++;
      a.asking?.abort();
      a.asking = null;
    };
  }, [key]);

  const fits = state.key === key;
  return {
    data: state.path === path ? state.data : undefined,
    error: fits ? state.error : null,
    loading: key !== null && !fits,
    stale: connection.value.mode === "stale",
    readAt: state.readAt,
    reload: () => {
      at.current.told = null;
      if (key !== null) void read(key);
    },
  };
}
