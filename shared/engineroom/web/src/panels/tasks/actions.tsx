import { api, confirm, fmt, Problem, seg, toast } from "../../ui";
import { dependents } from "./layout";
import { isOpen, type Graph, type Task } from "./types";

const path = (id: string): string => "/agent-tasks/" + seg(id);

/** told runs an action and says what became of it. It reports whether it was done. */
export async function told(action: () => Promise<unknown>, done: string, undo?: () => void): Promise<boolean> {
  try {
    await action();
    toast(done, undo);
    return true;
  } catch (error) {
    toast(error instanceof Problem ? error.message : String(error));
    return false;
  }
}

/** pause takes a task out of work; it can be undone. */
export const pause = (t: Task): Promise<boolean> =>
  told(() => api.patch(path(t.id), { status: "PAUSED" }), `Paused: ${t.title}`, () => void resume(t));

/** resume makes a paused task wait for an agent again. */
export const resume = (t: Task): Promise<boolean> =>
  told(() => api.patch(path(t.id), { status: "PENDING" }), `Resumed: ${t.title}`);

/** retry puts a failed task back with all its retries. */
export const retry = (t: { id: string; title: string }): Promise<boolean> =>
  told(() => api.post(path(t.id) + "/retry"), `Queued again: ${t.title}`);

/** archive puts an ended task away. */
export const archive = (t: Task): Promise<boolean> => told(() => api.post(path(t.id) + "/archive"), `Archived: ${t.title}`);

// doomed says which tasks fail when a task is cancelled.
function doomed(graph: Graph, id: string) {
  const found = dependents(graph, id).filter(isOpen);
  if (!found.length) return graph.truncated ? <p>More tasks depend on it than the graph shows; they will fail.</p> : <p>No other task depends on it.</p>;
  const named = found.slice(0, 5).map((n) => n.title);
  const more = found.length - named.length;
  return (
    <>
      <p>{fmt.plural(found.length, "task depends", "tasks depend")} on it and will fail:</p>
      <ul class="doomed">{named.map((title, i) => <li key={i}>{title}</li>)}{(more > 0 || graph.truncated) && <li>{more > 0 ? `and ${more} more` : "and others"}</li>}</ul>
    </>
  );
}

/** cancel aborts a task for good, after it has named the tasks that fail with it. */
export async function cancel(t: Task): Promise<boolean> {
  let graph: Graph;
  try {
    graph = await api.get<Graph>(path(t.id) + "/graph", { hops: 2 });
  } catch (error) {
    toast(error instanceof Problem ? error.message : String(error));
    return false;
  }
  const yes = await confirm({ title: `Cancel “${t.title}”?`, effect: doomed(graph, t.id), action: "Cancel task", reason: true });
  return yes ? told(() => api.post(path(t.id) + "/cancel", { reason: yes.reason }), `Cancelled: ${t.title}`) : false;
}
