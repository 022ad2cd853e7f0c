import { useEffect, useState } from "preact/hooks";
import { api } from "./api";
import type { Params } from "./base";
import { useResource, type Resource, type Watching } from "./resource";
import type { Page } from "./types";

const perRequest = 200; // the most that the API gives

/**
 * useWhole reads the first rows of a list, as many pages as that takes, and reads all of them anew upon
 * events: rows of any page may have changed. more, unless all are read, goes on with as many rows again.
 */
export function useWhole<P extends Page<unknown>>(path: string, params: Params, watching: Watching<P> = {}, rows = perRequest): Resource<P> & { more: (() => void) | undefined } {
  const [most, setMost] = useState(rows);
  const of = useResource<P>(path, { ...params, limit: perRequest }, {
    ...watching,
    read: async (path, params, signal) => {
      const first = await api.get<P>(path, params, signal);
      const items = [...first.items];
      let cursor = first.nextCursor;
      while (cursor && items.length < most) {
        const next: Page<unknown> = await api.get<Page<unknown>>(path, { ...params, cursor }, signal);
        items.push(...next.items);
        cursor = next.nextCursor;
      }
      return { ...first, items, nextCursor: cursor };
    },
    apart: (data) => (data && data.items.length > perRequest ? 15_000 : 1000), // it takes several requests
  });
  useEffect(() => {
    if (most > rows) of.reload();
  }, [most]);
  return { ...of, more: of.data?.nextCursor ? () => setMost(of.data!.items.length + rows) : undefined };
}
