import type { Graph } from "./types";

export interface Place {
  id: string;
  x: number;
  y: number;
}

export const box = { width: 112, height: 46, dx: 138, dy: 62 };

/**
 * layout places the nodes of a graph in layers from left to right, each to the right of all that it
 * depends on. Within a layer a node stands near the middle of what it depends on.
 */
export function layout(g: Graph): { places: Map<string, Place>; width: number; height: number } {
  const into = new Map<string, string[]>(g.nodes.map((n) => [n.id, []]));
  const out = new Map<string, string[]>(g.nodes.map((n) => [n.id, []]));
  for (const e of g.edges) {
    if (!into.has(e.to) || !into.has(e.from)) continue;
    into.get(e.to)!.push(e.from);
    out.get(e.from)!.push(e.to);
  }
  // Layers by the longest path; a cycle, which the server refuses, would end after as many rounds as nodes.
  const layer = new Map<string, number>(g.nodes.map((n) => [n.id, 0]));
  for (let round = 0, moved = true; moved && round < g.nodes.length; round++) {
    moved = false;
    for (const n of g.nodes) {
      const at = Math.max(0, ...into.get(n.id)!.map((from) => layer.get(from)! + 1));
      if (at > layer.get(n.id)! && at < g.nodes.length) {
        layer.set(n.id, at);
        moved = true;
      }
    }
  }
  // What nothing leads to stands directly before what it leads to, not at the far left.
  for (const n of g.nodes) {
    if (into.get(n.id)!.length === 0 && out.get(n.id)!.length > 0) {
      layer.set(n.id, Math.max(0, Math.min(...out.get(n.id)!.map((to) => layer.get(to)! - 1))));
    }
  }
  const layers: string[][] = [];
  for (const n of g.nodes) (layers[layer.get(n.id)!] ??= []).push(n.id);
  const rows = Math.max(1, ...layers.map((l) => l?.length ?? 0));
  const places = new Map<string, Place>();
  layers.forEach((ids, i) => {
    const middle = (id: string): number => {
      const from = into.get(id)!.map((f) => places.get(f)?.y).filter((y) => y !== undefined);
      return from.length ? from.reduce((a, b) => a + b, 0) / from.length : Infinity;
    };
    const sorted = i ? ids.map((id) => [id, middle(id)] as const).sort((a, b) => a[1] - b[1] || a[0].localeCompare(b[0])).map(([id]) => id) : ids;
    const top = ((rows - sorted.length) * box.dy) / 2;
    sorted.forEach((id, row) => places.set(id, { id, x: i * box.dx, y: top + row * box.dy }));
  });
  return { places, width: (layers.length - 1) * box.dx + box.width, height: (rows - 1) * box.dy + box.height };
}

/** dependents are the nodes that depend on one, directly or through others, nearest first. */
export function dependents(g: Graph, id: string): Graph["nodes"] {
  const found: string[] = [];
  const queue = [id];
  while (queue.length) {
    const at = queue.shift()!;
    for (const e of g.edges) {
      if (e.from === at && e.to !== id && !found.includes(e.to)) {
        found.push(e.to);
        queue.push(e.to);
      }
    }
  }
  return found.map((at) => g.nodes.find((n) => n.id === at)).filter((n) => n !== undefined);
}
