import { api, Problem } from "../app/api";
import { fmt } from "../app/fmt";
import { confirm } from "./confirm";
import { toast } from "./toast";

export type Filter = Record<string, string | number | undefined>;

interface Outcome {
  matched: number;
  changed: number;
  refused: number;
}

const given = (filter: Filter): Filter => Object.fromEntries(Object.entries(filter).filter(([, v]) => v !== undefined && v !== ""));

/**
 * countOf is how many rows a bulk action would touch now. It expects none: where there are some, the
 * server refuses and names their number, and where there are none, nothing happens.
 */
async function countOf(resource: string, filter: Filter, action: string): Promise<number> {
  try {
    await api.post(`/${resource}/bulk`, { filter: given(filter), action, reason: "count", expectedCount: 0 });
    return 0;
  } catch (error) {
    if (error instanceof Problem && error.code === "count_changed") return Number(error.body.count ?? 0);
    throw error;
  }
}

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
    count = await countOf(b.resource, b.filter, b.action);
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
