import { useEffect, useRef, useState } from "preact/hooks";
import { api, Problem } from "./api";
import { query as asQuery, type Params } from "./base";
import { listen } from "./live";
import { useResource, type Watching } from "./resource";
import type { Page } from "./types";

const mostAnew = 20; // pages that are read anew

/** Pages is a list of the API that is read page by page. */
export interface Pages<T> {
  items: T[] | undefined; // undefined: nothing is read yet
  error: Problem | null;
  loading: boolean;
  stale: boolean;
  more: (() => void) | undefined; // reads the next page; undefined: all are read
  reload: () => void; // from the first page on
}

/**
 * usePages reads the first page of a list, keeps it up to date, and reads on by cursor. Rows that new ones
 * push out of the first page are kept, so that no gap opens before the pages behind it; those that left it
 * otherwise are not.
 */
export function usePages<T>(path: string | null, params: Params, keyOf: (row: T) => string, watching: Watching<Page<T>> = {}): Pages<T> {
  const first = useResource<Page<T>>(path, params, watching);
  const key = path + asQuery(params);
  const [rest, setRest] = useState<{ key: string; items: T[]; next?: string | null; error: Problem | null }>({ key, items: [], error: null });
  const before = useRef<{ key: string; page?: Page<T> }>({ key });
  const reading = useRef(false);
  const own = rest.key === key ? rest : { key, items: [] as T[], next: undefined, error: null };

  useEffect(() => {
    const was = before.current;
    before.current = { key, page: first.data };
    if (was.key !== key || !was.page || !first.data || was.page === first.data || !own.items.length) return;
    const now = new Set(first.data.items.map(keyOf));
    const out = was.page.items.slice(was.page.items.findLastIndex((row) => now.has(keyOf(row))) + 1); // all at its end
    if (out.length && first.data.nextCursor) setRest((r) => (r.key === key ? { ...r, items: [...out, ...r.items] } : r));
  }, [key, first.data]);

  // After a reset the pages behind the first are read anew, as many as they were.
  const anew = async (rows: number): Promise<void> => {
    if (reading.current || path === null) return;
    reading.current = true;
    try {
      let next = (await api.get<Page<T>>(path, params)).nextCursor;
      const items: T[] = [];
      for (let i = 0; i < mostAnew && next && items.length < rows; i++) {
        const page: Page<T> = await api.get<Page<T>>(path, { ...params, cursor: next });
        items.push(...page.items);
        next = page.nextCursor;
      }
      setRest((r) => (r.key === key ? { key, items, next, error: null } : r));
    } catch {
      // What is on display stays; the first page tells that it could not be read.
    } finally {
      reading.current = false;
    }
  };

  // A row that got another status than the list asks for leaves it.
  const asked = params.status ? String(params.status).toLowerCase() : "";
  const held = own.items.length > 0;
  const loaded = useRef(0);
  loaded.current = own.items.length;
  useEffect(() => {
    if (!held || !watching.kinds) return;
    return listen(watching.kinds, (events, reset) => {
      if (reset) void anew(loaded.current);
      if (!asked) return;
      const left = new Set<string>();
      for (const e of events) {
        if (e.subject && typeof e.data.status === "string" && e.data.status.toLowerCase() !== asked) left.add(e.subject);
      }
      if (left.size) setRest((r) => (r.key === key ? { ...r, items: r.items.filter((row) => !left.has(keyOf(row))) } : r));
    });
  }, [key, held]);

  const next = own.items.length ? own.next : first.data?.nextCursor;
  const more = async (): Promise<void> => {
    if (reading.current || !next || path === null) return;
    reading.current = true;
    try {
      const page = await api.get<Page<T>>(path, { ...params, cursor: next });
      setRest((r) => ({ key, items: [...(r.key === key ? r.items : []), ...page.items], next: page.nextCursor, error: null }));
    } catch (error) {
      setRest((r) => ({ ...(r.key === key ? r : { items: [] }), key, next: null, error: error instanceof Problem ? error : null }));
    } finally {
      reading.current = false;
    }
  };
  let items = first.data?.items;
  if (items && own.items.length) {
    const seen = new Set(items.map(keyOf));
    items = [...items, ...own.items.filter((row) => !seen.has(keyOf(row)) && seen.add(keyOf(row)))];
  }
  return {
    items,
    error: first.error ?? own.error,
    loading: first.loading,
    stale: first.stale,
    more: next ? () => void more() : undefined,
    reload: () => {
      setRest({ key, items: [], error: null });
      first.reload();
    },
  };
}
