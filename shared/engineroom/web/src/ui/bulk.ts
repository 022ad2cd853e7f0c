import { api, Problem } from "../app/api";
import { fmt } from "../app/fmt";
import { confirm } from "./confirm";
import type { Page } from "../app/types";
import { toast } from "./toast";

export type Filter = Record<string, string | number | undefined>;

interface Outcome {
  matched: number;
  changed: number;
  refused: number;
}

const given = (filter: Filter): Filter => Object.fromEntries(Object.entries(filter).filter(([, v]) => v !== undefined && v !== ""));

// countOf is how many rows match now, read in pages of the list itself.
async function countOf(resource: string, filter: Filter): Promise<number> {
  let count = 0;
  for (let cursor: string | null | undefined = ""; cursor !== undefined && cursor !== null && count <= most; ) {
    const page: Page<unknown> = await api.get(`/${resource}`, { ...given(filter), limit: 200, cursor });
    count += page.items.length;
    cursor = page.nextCursor || undefined;
  }
  return count;
}

const most = 10_000; // rows that the server changes at once

/**
 * bulk does something with all rows that match a filter, on the server, after a person has seen how many
 * they are. The server refuses when the number has changed by then.
 */
export async function bulk(b: {
  resource: string; // "agent-tasks"
  filter: Filter;
  action: string;
  verb: string; // "Cancel"
  what: string; // "task"
  effect: string;
  calm?: boolean;
}): Promise<boolean> {
  let count: number;
  try {
    count = await countOf(b.resource, b.filter);
  } catch (error) {
    toast(error instanceof Problem ? error.message : String(error));
    return false;
  }
  while (count > 0) {
    const things = fmt.plural(count, b.what, b.what === "memory" ? "memories" : b.what + "s");
    const yes = await confirm({ title: `${b.verb} ${things}?`, effect: b.effect, action: `${b.verb} ${things}`, reason: true, calm: b.calm });
    if (!yes) return false;
    try {
      const done = await api.post<Outcome>(`/${b.resource}/bulk`, { filter: given(b.filter), action: b.action, reason: yes.reason, expectedCount: count });
      toast(`${fmt.count(done.changed)} of ${fmt.count(done.matched)} changed${done.refused ? `; ${fmt.count(done.refused)} refused, since their status does not allow it` : ""}`);
      return true;
    } catch (error) {
      if (error instanceof Problem && error.code === "count_changed") {
        count = Number(error.body.count ?? 0);
        toast(`They are ${fmt.count(count)} by now`);
        continue;
      }
      toast(error instanceof Problem ? error.message : String(error));
      return false;
    }
  }
  toast("None matches");
  return false;
}
