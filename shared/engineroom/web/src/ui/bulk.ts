import { api, Problem } from "../app/api";
import { fmt } from "../app/fmt";
import { confirm } from "./confirm";
import type { Page } from "../app/types";
import { notice, toast } from "./toast";

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
const mostRequests = 20; // one after the other, before a person is asked whether to go on

interface Bulk {
  resource: string; // "agent-tasks"
  filter: Filter;
  action: string;
  verb: string; // "Cancel"
  what: string; // "task"
  effect: string;
  calm?: boolean;
}

/**
 * bulk does something with all rows that match a filter, on the server, after a person has seen how many
 * they are. The server refuses when the number has changed by then.
 */
export async function bulk(b: Bulk): Promise<boolean> {
  let count: number;
  try {
    count = await countOf(b.resource, b.filter);
  } catch (error) {
    toast(error instanceof Problem ? error.message : String(error));
    return false;
  }
  let initial: string | undefined;
  while (count > 0) {
    const things = fmt.plural(count, b.what, b.what === "memory" ? "memories" : b.what + "s");
    const yes = await confirm({ title: `${b.verb} ${things}?`, effect: b.effect, action: `${b.verb} ${things}`, reason: true, initial, calm: b.calm });
    if (!yes) return false;
    initial = yes.reason;
    try {
      await run(b, yes.reason, count, count, 0);
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

// run changes what matches, of which a person was shown how many, in as many requests as it takes: each has little
// time. It throws what refuses the first one. Later ones say what is left, and offer to go on.
async function run(b: Bulk, reason: string, shown: number, expected: number, changed: number): Promise<void> {
  let why = "";
  let stay = false; // what was changed matches as before
  let end = (): void => {};
  for (let n = 0; n < mostRequests; n++) {
    try {
      const done = await api.post<Outcome>(`/${b.resource}/bulk`, { filter: given(b.filter), action: b.action, reason, expectedCount: expected });
      changed = Math.min(shown, changed + done.changed);
      end();
      if (done.changed + done.refused >= done.matched) {
        const refused = Math.min(done.refused, shown - changed);
        toast(`${fmt.count(changed)} of ${fmt.count(shown)} changed${refused ? `; ${fmt.count(refused)} refused, since their status does not allow it` : ""}`);
        return;
      }
      if (!done.changed) break;
      end = notice(`${fmt.count(changed)} of ${fmt.count(shown)} changed so far …`);
      expected = done.matched - (stay ? 0 : done.changed);
    } catch (error) {
      const count = error instanceof Problem && error.code === "count_changed" ? Number(error.body.count ?? 0) : Infinity;
      if (changed && count <= shown) {
        stay = count > expected;
        expected = count;
        continue;
      }
      end();
      if (!changed) throw error;
      if (count < Infinity) why = ` They are ${fmt.count(expected = count)} by now.`;
      else why = " " + (error instanceof Problem ? error.message : String(error));
      break;
    }
  }
  end();
  const again = (): void => {
    run(b, reason, Math.max(shown, expected), expected, changed).catch((error: Error) => toast(error.message));
  };
  notice(`${fmt.count(changed)} of ${fmt.count(shown)} changed.${why}`, { label: "Go on", run: again });
}
