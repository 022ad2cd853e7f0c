import { Failed, fmt, Glyph, href, seg, toneOf, useQuery, useResource, wordOf } from "../../ui";
import { box, layout } from "./layout";
import { statusOf, type Graph } from "./types";

const most = 60; // nodes on display

// tree is the graph as a nested list: what a task depends on, or what depends on it.
function Tree({ graph, id, towards, seen }: { graph: Graph; id: string; towards: "from" | "to"; seen: readonly string[] }) {
  const next = graph.edges.filter((e) => e[towards === "from" ? "to" : "from"] === id).map((e) => e[towards]);
  const nodes = next.filter((n) => !seen.includes(n)).map((n) => graph.nodes.find((m) => m.id === n)).filter((n) => n !== undefined);
  if (!nodes.length) return null;
  return (
    <ul>
      {nodes.map((n) => (
        <li key={n.id}>{n.title}: {wordOf("task", statusOf(n))}<Tree graph={graph} id={n.id} towards={towards} seen={[...seen, n.id]} /></li>
      ))}
    </ul>
  );
}

/** Dependencies draws what a task depends on and what depends on it, within two hops. */
export function Dependencies({ id, count }: { id: string; count: number }) {
  const [query] = useQuery();
  const graph = useResource<Graph>(count ? `/agent-tasks/${seg(id)}/graph` : null, { hops: 2 }, { kinds: ["task."] });
  if (!count) return null;
  if (graph.error && !graph.data) return <Failed error={graph.error} retry={graph.reload} what="The graph" />;
  if (!graph.data) return null;
  const all = graph.data;
  const nodes = all.nodes.length > most ? [...all.nodes].sort((a, b) => a.hops - b.hops).slice(0, most) : all.nodes;
  const ids = new Set(nodes.map((n) => n.id));
  const g: Graph = { nodes, edges: all.edges.filter((e) => ids.has(e.from) && ids.has(e.to)), truncated: all.truncated };
  const { places, width, height } = layout(g);
  const left = all.nodes.length - nodes.length;
  return (
    <section class="deps">
      <h3 class="sec">Depends on → blocks</h3>
      <div class="dag" tabIndex={0} role="group" aria-label="Dependency graph" style={{ height: height + 4 + "px" }}>
        <svg width={width} height={height} aria-hidden="true">
          {g.edges.map((e) => {
            const a = places.get(e.from)!, b = places.get(e.to)!;
            const x1 = a.x + box.width, y1 = a.y + box.height / 2, x2 = b.x, y2 = b.y + box.height / 2;
            return <path key={e.from + e.to} class={e.blocking ? "block" : undefined} d={`M${x1} ${y1}C${x1 + 16} ${y1} ${x2 - 16} ${y2} ${x2} ${y2}`} />;
          })}
        </svg>
        {nodes.map((n) => {
          const at = places.get(n.id)!;
          const status = statusOf(n);
          return (
            <a key={n.id} class={n.id === id ? "self" : undefined} aria-current={n.id === id ? "true" : undefined} title={n.title}
              href={href("tasks/" + seg(n.id), query)} style={{ left: at.x + "px", top: at.y + "px" }}>
              <Glyph tone={toneOf("task", status)} /><span>{n.title}</span><span class="sr">, {wordOf("task", status)}</span>
            </a>
          );
        })}
      </div>
      {(left > 0 || all.truncated) && <p class="muted cut">{left > 0 ? `${fmt.plural(left, "task")} more within two hops.` : "More tasks stand behind these; open one to go on."}</p>}
      <div class="sr">
        <p>Depends on:</p><Tree graph={g} id={id} towards="from" seen={[id]} />
        <p>Blocks:</p><Tree graph={g} id={id} towards="to" seen={[id]} />
      </div>
    </section>
  );
}
