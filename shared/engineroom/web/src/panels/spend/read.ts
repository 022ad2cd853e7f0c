import { useEffect, useState } from "preact/hooks";
import { api } from "../../ui";
import type { Budget, Projection } from "./budget";

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
