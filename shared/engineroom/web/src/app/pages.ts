import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, Problem } from "./api";
import { query as asQuery, type Params } from "./base";
import { listen } from "./live";
import { useResource, type Watching } from "./resource";
import type { Happened, Page } from "./types";

const mostAnew = 20; // pages that are read anew
const mostFirst = 1000; // rows of a first page that grows; with more it is read anew

/** Pages is a list of the API that is read page by page. */
export interface Pages<T> {
  items: T[] | undefined; // undefined: nothing is read yet
  error: Problem | null;
  loading: boolean;
  stale: boolean;
  more: (() => void) | undefined; // reads the next page; undefined: all are read
  reload: () => void; // from the first page on
}

interface Following<T> extends Omit<Watching<Page<T>>, "patch" | "news"> {
  /**
   * timeOf is when a row was made, of a list whose rows come newest first, never change, and have a
   * filter since. Upon an event such a list reads the rows since then alone.
   */
  timeOf?: (row: T) => string;
}

/**
 * usePages reads the first page of a list, keeps it up to date, and reads on by cursor. Rows that new ones
 * push out of the first page are kept, so that no gap opens before the pages behind it; those that left it
 * otherwise are not.
 */
export function usePages<T>(path: string | null, params: Params, keyOf: (row: T) => string, following: Following<T> = {}): Pages<T> {
  const { timeOf, ...watching } = following;
  const first = useResource<Page<T>>(path, params, { ...watching, news: timeOf && newest(params, keyOf, timeOf) });
  const key = path + asQuery(params);
  const [rest, setRest] = useState<{ key: string; items: T[]; next?: string | null; error: Problem | null }>({ key, items: [], error: null });
  const before = useRef<{ key: string; page?: Page<T> }>({ key });
  const at = useRef({ run: 0, reading: false, resetAt: 0, pushed: [] as T[] });
  const own = useMemo(() => (rest.key === key ? rest : { key, items: [] as T[], next: undefined, error: null }), [rest, key]);

  useEffect(() => {
    const was = before.current;
    before.current = { key, page: first.data };
    if (was.key !== key || !was.page || !first.data || was.page === first.data) return;
    if (at.current.resetAt && first.readAt > at.current.resetAt) {
      at.current.resetAt = 0;
      if (own.items.length) void anew(first.data.nextCursor, own.items.length);
      return;
    }
    if (!own.items.length || was.page.items.at(-1) === first.data.items.at(-1)) return; // none has left its end
    const now = new Set(first.data.items.map(keyOf));
    const out = was.page.items.slice(was.page.items.findLastIndex((row) => now.has(keyOf(row))) + 1); // all at its end
    if (!out.length || !first.data.nextCursor) return;
    at.current.pushed.unshift(...out);
    setRest((r) => (r.key === key ? { ...r, items: joined(out, r.items, keyOf) } : r));
  }, [key, first.data]);

  // anew reads the pages behind the first anew after a reset, as many rows as they had. Where they can't be
  // read they are dropped: what stands in them may never have happened.
  const anew = async (next: string | null | undefined, rows: number): Promise<void> => {
    const a = at.current;
    const run = ++a.run;
    a.reading = true;
    a.pushed = [];
    const items: T[] = [];
    let cursor = next;
    try {
      for (let i = 0; i < mostAnew && cursor && items.length < rows; i++) {
        const page: Page<T> = await api.get<Page<T>>(path!, { ...params, cursor });
        items.push(...page.items);
        cursor = page.nextCursor;
      }
      if (run === a.run) setRest((r) => (r.key === key ? { key, items: joined(a.pushed, items, keyOf), next: cursor, error: null } : r));
    } catch {
      if (run === a.run) setRest((r) => (r.key === key ? { key, items: [], error: null } : r));
    } finally {
      if (run === a.run) a.reading = false;
    }
  };

  // A row that got another status than the list asks for leaves it.
  const asked = params.status ? String(params.status).toLowerCase() : "";
  useEffect(() => {
    at.current.resetAt = 0;
    return listen(watching.kinds ?? ["-"], (events, reset) => {
      if (reset) at.current.resetAt = performance.now();
      if (!asked) return;
      const left = new Set<string>();
      for (const e of events) {
        if (e.subject && typeof e.data.status === "string" && e.data.status.toLowerCase() !== asked) left.add(e.subject);
      }
      if (left.size) setRest((r) => (r.key === key && r.items.length ? { ...r, items: r.items.filter((row) => !left.has(keyOf(row))) } : r));
    });
  }, [key]);

  const next = own.items.length ? own.next : first.data?.nextCursor;
  const more = async (): Promise<void> => {
    const a = at.current;
    if (a.reading || !next || path === null) return;
    const run = ++a.run;
    a.reading = true;
    try {
      const page = await api.get<Page<T>>(path, { ...params, cursor: next });
      if (run === a.run) setRest((r) => ({ key, items: joined(r.key === key ? r.items : [], page.items, keyOf), next: page.nextCursor, error: null }));
    } catch (error) {
      if (run === a.run) setRest((r) => ({ ...(r.key === key ? r : { items: [] }), key, next: null, error: error instanceof Problem ? error : null }));
    } finally {
      if (run === a.run) a.reading = false;
    }
  };
  const items = useMemo(() => first.data && joined(first.data.items, own.items, keyOf), [first.data, own.items]);
  return {
    items,
    error: first.error ?? own.error,
    loading: first.loading,
    stale: first.stale,
    more: next ? () => void more() : undefined,
    reload: () => {
      at.current.run++; // what is being read now comes too late
      at.current.reading = false;
      at.current.pushed = [];
      setRest({ key, items: [], error: null });
      first.reload();
    },
  };
}

// joined puts lists one behind the other, without the rows of the second that the first has. Neither has a row twice.
function joined<T>(a: T[], b: T[], keyOf: (row: T) => string): T[] {
  if (!a.length || !b.length) return a.length ? a : b;
  const [few, many] = a.length < b.length ? [a, b] : [b, a];
  const keys = new Set(few.map(keyOf));
  if (few === a) return [...a, ...many.filter((row) => !keys.has(keyOf(row)))];
  for (const row of a) keys.delete(keyOf(row));
  return [...a, ...b.filter((row) => keys.has(keyOf(row)))];
}

// newest says how a list that comes newest first reads what events tell of: all rows since the earliest of them.
const newest = <T>(params: Params, keyOf: (row: T) => string, timeOf: (row: T) => string): Watching<Page<T>>["news"] => (events: Happened[]) => {
  const earliest = Math.min(...events.map((e) => +new Date(e.createdAt)));
  const from = Math.max(earliest, params.since ? +new Date(String(params.since)) : 0);
  const fits = !params.until || from < +new Date(String(params.until));
  return {
    params: fits ? { since: new Date(from).toISOString() } : null,
    merge: (page, answer) => {
      if (answer.nextCursor || page.items.length + answer.items.length > mostFirst) return undefined; // more than a page is new, or kept
      const older = page.items.findIndex((row) => +new Date(timeOf(row)) < from);
      const now = new Set(answer.items.map(keyOf));
      const left = (older < 0 ? page.items : page.items.slice(0, older)).filter((row) => now.has(keyOf(row)));
      if (left.length === answer.items.length) return page; // it has them already
      return { ...page, items: [...answer.items, ...(older < 0 ? [] : page.items.slice(older))] };
    },
  };
};
