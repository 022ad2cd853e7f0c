import { useEffect, useState } from "preact/hooks";
import { api, type Page, Problem, query, type Params } from "../../ui";
import type { Budget, Projection } from "./budget";

const most = 10; // pages of 200 rows

/** useAll reads all pages of a list, again whenever its parameters or version change. */
export function useAll<T>(path: string, params: Params, version: unknown) {
  const key = path + query(params) + String(version);
  const [state, set] = useState<{ key: string; data?: T[]; error: Problem | null }>({ key: "", error: null });
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const asking = new AbortController();
    const read = async () => {
      const data: T[] = [];
      let cursor: string | null | undefined = "";
      for (let n = 0; n < most && cursor !== null && cursor !== undefined; n++) {
        const page: Page<T> = await api.get<Page<T>>(path, { ...params, limit: 200, cursor }, asking.signal);
        data.push(...page.items);
        cursor = page.nextCursor;
      }
      set({ key, data, error: null });
    };
    read().catch((e: unknown) => {
      if (!asking.signal.aborted) set({ key, error: e instanceof Problem ? e : new Problem(0, "failed", "The answer could not be read", String(e), "") });
    });
    return () => asking.abort();
  }, [key, tries]);
  return { data: state.data, error: state.key === key ? state.error : null, loading: state.key !== key, reload: () => setTries((n) => n + 1) };
}

/** useProjections reads how long each budget lasts. */
export function useProjections(budgets: Budget[]) {
  const [of, set] = useState<Record<string, Projection>>({});
  const key = budgets.map((b) => b.id + b.consumed + "/" + b.allocated).join();
  useEffect(() => {
    const asking = new AbortController();
    for (const b of budgets.slice(0, 30)) {
      api.get<Projection>(`/budgets/${b.id}/projection`, undefined, asking.signal).then((p) => set((all) => ({ ...all, [b.id]: p })), () => {}); // the row shows "…"
    }
    return () => asking.abort();
  }, [key]);
  return of;
}
