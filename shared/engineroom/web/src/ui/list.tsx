import { Component, type ComponentChildren, type VNode } from "preact";
import { useCallback, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../app/keys";
import { go } from "../app/router";

/** Column is one column of a List. */
export interface Column<T> {
  key: string;
  head: ComponentChildren;
  cell: (row: T) => ComponentChildren;
  width?: string; // CSS; without one the column takes what is left
  right?: boolean; // digits
  wide?: boolean | "desk" | "roomy"; // left out on a phone; desk: also up to 1240 pixels; roomy: also up to 1399
  spare?: boolean; // left out beside an open detail, up to 1699 pixels
  phone?: string; // its width on a phone
  class?: string;
}

export interface ListProps<T> {
  rows: readonly T[];
  columns: readonly Column<T>[];
  rowKey: (row: T) => string;
  label: string; // of the table, for screen readers
  onOpen?: (row: T) => void; // by click and Enter
  href?: (row: T) => string; // instead of onOpen: the row leads there
  selected?: string | null; // key of the row whose detail is open
  picked?: ReadonlySet<string>; // keys of the rows that are selected with X
  onPick?: (picked: Set<string>) => void;
  total?: number; // how many there are, where not all are loaded
  onEnd?: () => void; // the last rows are in sight: load more
  rowClass?: (row: T) => string | undefined;
  keys?: boolean; // J, K, X and Enter; default true
  head?: boolean; // default true
}

const kept = <T,>({ wide, spare }: Column<T>): string | undefined => [wide && "wide", typeof wide === "string" && wide, spare && "spare"].filter(Boolean).join(" ") || undefined;

const above = 12; // rows drawn before and behind those in sight
const step = 8; // rows that come into the page at once: most frames of a scroll change nothing
const windowedFrom = 80; // shorter lists are drawn whole

/** most is how many rows a list keeps. */
export const most = 10_000;

const rowHeight = (): number => (matchMedia("(max-width: 900px)").matches ? 44 : 36);

interface RowProps<T> {
  row: T;
  index: number;
  on: boolean;
  picked: boolean | undefined; // undefined: rows can't be picked
  class: string | undefined;
  columns: readonly Column<T>[];
  pick: (row: T, upTo: boolean) => void; // always the same
}

// Row draws a row anew when it or its columns changed. Where only its place did, its cells are kept.
class Row<T> extends Component<RowProps<T>> {
  private cells: VNode[] | null = null;

  override shouldComponentUpdate(next: RowProps<T>): boolean {
    const now = this.props;
    const same = next.row === now.row && next.columns === now.columns;
    if (next === now || !same) this.cells = null; // next === now: a signal that a cell reads changed
    return !this.cells || next.index !== now.index || next.on !== now.on || next.picked !== now.picked || next.class !== now.class;
  }

  override render({ row, index, on, picked, class: name, columns, pick }: RowProps<T>) {
    this.cells ??= columns.map((c) => <td key={c.key} class={classOf(c)}>{c.cell(row)}</td>);
    return (
      <tr data-i={index} aria-rowindex={index + 2} aria-selected={on || undefined} class={name}>
        {picked !== undefined && (
          <td class="wide"><input type="checkbox" checked={picked} aria-label="Select" onClick={(e) => { e.stopPropagation(); pick(row, e.shiftKey); }} /></td>
        )}
        {this.cells}
      </tr>
    );
  }
}

const classOf = <T,>(c: Column<T>): string | undefined => [c.right && "r", kept(c), c.class].filter(Boolean).join(" ") || undefined;

/** List is a table whose rows have one height; of a long one only the rows in sight are in the page. */
export function List<T>(p: ListProps<T>) {
  const table = useRef<HTMLTableElement>(null);
  const [range, setRange] = useState<[number, number]>([0, windowedFrom]);
  const [cursor, setCursor] = useState<string | null>(null);
  const count = p.rows.length;
  const windowed = count > windowedFrom;
  const latest = useRef(p);
  latest.current = p;
  const picks = useRef<(row: T, upTo: boolean) => void>(() => {});
  const pickRow = useCallback((row: T, upTo: boolean) => picks.current(row, upTo), []);

  useLayoutEffect(() => {
    const main = document.getElementById("main");
    if (!main) return;
    let frame = 0;
    const look = (): void => {
      frame = 0;
      const { rows, onEnd } = latest.current;
      const body = table.current?.tBodies[0];
      if (!body) return;
      const height = rowHeight();
      const top = body.getBoundingClientRect().top - main.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor((Math.floor(-top / height) - above) / step) * step);
      const last = Math.min(rows.length, Math.ceil((Math.ceil((-top + main.clientHeight) / height) + above) / step) * step);
      if (rows.length > windowedFrom) setRange((r) => (r[0] === first && r[1] === last ? r : [first, last]));
      if (onEnd && last >= rows.length) onEnd();
    };
    const soon = (): void => {
      frame ||= requestAnimationFrame(look);
    };
    look();
    main.addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      main.removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }, [count]);

  const open = (row: T): void => {
    if (p.href) go(p.href(row));
    else p.onOpen?.(row);
  };
  const key = cursor ?? p.selected ?? null;
  const at = key === null ? -1 : p.rows.findIndex((r) => p.rowKey(r) === key);
  const move = (by: number): void => {
    const next = Math.max(0, Math.min(count - 1, at + by));
    const row = p.rows[next];
    if (!row) return;
    setCursor(p.rowKey(row));
    const main = document.getElementById("main")!;
    const body = table.current!.tBodies[0]!;
    const height = rowHeight();
    const top = body.getBoundingClientRect().top - main.getBoundingClientRect().top + next * height;
    if (top < 40) main.scrollBy({ top: top - 40 - height });
    else if (top + height > main.clientHeight) main.scrollBy({ top: top + 2 * height - main.clientHeight });
  };
  const pick = (row: T, upTo = false): void => {
    if (!p.onPick) return;
    const picked = new Set(p.picked);
    const k = p.rowKey(row);
    if (upTo && at >= 0) {
      const to = p.rows.indexOf(row);
      for (const r of p.rows.slice(Math.min(at, to), Math.max(at, to) + 1)) picked.add(p.rowKey(r));
    } else if (!picked.delete(k)) picked.add(k);
    setCursor(k);
    p.onPick(picked);
  };
  picks.current = pick;
  useKeys(p.keys === false ? {} : {
    j: () => move(1),
    k: () => move(-1),
    ...(at >= 0 && (p.onOpen || p.href) ? { Enter: () => open(p.rows[at]!) } : {}),
    ...(p.onPick && at >= 0 ? { x: (e: KeyboardEvent) => pick(p.rows[at]!, e.shiftKey) } : {}),
  });
  useLayoutEffect(() => setCursor(null), [p.selected]);

  const onClick = (event: MouseEvent): void => {
    const from = event.target as Element;
    if (from.closest("a,button,input,select,label")) return;
    const index = Number(from.closest<HTMLElement>("tr[data-i]")?.dataset.i ?? NaN);
    const row = p.rows[index];
    if (row === undefined) return;
    if (event.shiftKey && p.onPick) pick(row, true);
    else if (p.href && (event.metaKey || event.ctrlKey)) window.open(p.href(row), "_blank", "noopener");
    else open(row);
  };

  const [first, last] = windowed ? [Math.min(range[0], count), Math.min(range[1], count)] : [0, count];
  const height = windowed ? rowHeight() : 0;
  const opens = Boolean(p.onOpen || p.href);
  return (
    <table class="tbl fixed" ref={table} aria-label={p.label} aria-rowcount={(p.total ?? count) + 1}>
      <colgroup>
        {p.onPick && <col style={{ width: "36px" }} class="wide" />}
        {p.columns.map((c) => <col key={c.key} class={kept(c)} style={c.width ? { width: c.width, "--phone": c.phone ?? c.width } : undefined} />)}
      </colgroup>
      {p.head !== false && (
        <thead>
          <tr aria-rowindex={1}>
            {p.onPick && <th class="wide"><span class="sr">Selected</span></th>}
            {p.columns.map((c) => <th key={c.key} scope="col" class={classOf(c)}>{c.head}</th>)}
          </tr>
        </thead>
      )}
      <tbody onClick={onClick}>
        {first > 0 && <tr class="gap" key="before" aria-hidden="true"><td style={{ height: first * height + "px" }} /></tr>}
        {p.rows.slice(first, last).map((row, i) => {
          const k = p.rowKey(row);
          const on = k === key;
          return (
            <Row key={k} row={row} index={first + i} on={on} picked={p.onPick && (p.picked?.has(k) ?? false)} columns={p.columns} pick={pickRow}
              class={[opens && "opens", p.picked?.has(k) && "picked", p.rowClass?.(row)].filter(Boolean).join(" ") || undefined} />
          );
        })}
        {last < count && <tr class="gap" key="behind" aria-hidden="true"><td style={{ height: (count - last) * height + "px" }} /></tr>}
      </tbody>
    </table>
  );
}
