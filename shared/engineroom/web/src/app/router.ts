import { batch, signal } from "@preact/signals";
import { href, root } from "./base";

export interface Place {
  page: string;
  id?: string;
  query: URLSearchParams;
}

// read takes apart the address of this window.
function read(): Place {
  const path = location.pathname.startsWith(root) ? location.pathname.slice(root.length) : "";
  const [page, ...rest] = path.split("/").filter(Boolean);
  let id: string | undefined;
  try {
    id = rest.length ? decodeURIComponent(rest.join("/")) : undefined;
  } catch {
    id = rest.join("/"); // not encoded as it should be: as it stands
  }
  return { page: page ?? "overview", id, query: new URLSearchParams(location.search) };
}

/** place is where the page is. */
export const place = signal<Place>(read());

/** moved counts the navigations; back tells whether the last one went through the history. */
export const moved = signal(0);
export let restored: number | null = null;

const main = (): HTMLElement | null => document.getElementById("main");

function keep(): void {
  history.replaceState({ ...history.state, top: main()?.scrollTop ?? 0 }, "");
}

function arrive(top: number | null): void {
  batch(() => {
    restored = top;
    place.value = read();
    moved.value++;
  });
}

let leaving: (() => Promise<boolean>) | null = null;
const unload = (event: Event): void => event.preventDefault();

/** askBefore has a person asked before the page is left, until what it returns is called. */
export function askBefore(ask: () => Promise<boolean>): () => void {
  leaving = ask;
  addEventListener("beforeunload", unload);
  return () => {
    leaving = null;
    removeEventListener("beforeunload", unload);
  };
}

/** mayLeave reports whether the page may be left for another document, and does not ask again. */
export async function mayLeave(): Promise<boolean> {
  if (leaving && !(await leaving())) return false;
  removeEventListener("beforeunload", unload);
  return true;
}

const leaves = (path: string): boolean => leaving !== null && path !== location.pathname;

/** go opens an address of the Engine Room. With replace the current entry of the history is lost. */
export function go(to: string, replace = false): void {
  const url = new URL(to, location.href);
  if (url.href === location.href) return;
  if (leaves(url.pathname)) {
    void leaving!().then((yes) => {
      if (yes) enter(to, replace);
    });
  } else enter(to, replace);
}

function enter(to: string, replace: boolean): void {
  keep();
  const same = place.peek().page;
  if (replace) history.replaceState(history.state, "", to);
  else history.pushState({}, "", to);
  const here = read();
  arrive(here.page === same ? null : 0); // within a page nothing moves
}

/** setQuery changes filters in the address; null takes one away. Back undoes it, unless replace is set. */
export function setQuery(changes: Record<string, string | null | undefined>, replace = false): void {
  const { page, id, query } = place.peek();
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") next.delete(name);
    else next.set(name, value);
  }
  go(href(page + (id ? "/" + encodeURIComponent(id) : ""), next), replace);
}

/** useQuery returns the filters in the address, and what changes them. */
export function useQuery(): [URLSearchParams, typeof setQuery] {
  return [place.value.query, setQuery];
}

/** begin follows links and the history from now on. */
export function begin(): void {
  history.scrollRestoration = "manual";
  let at = location.href;
  addEventListener("popstate", () => {
    const to = location.href;
    if (leaving && read().page !== place.peek().page) {
      history.pushState({}, "", at);
      go(to);
    } else arrive((history.state as { top?: number } | null)?.top ?? 0);
  });
  place.subscribe(() => { at = location.href; });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.("a");
    if (!link || link.target || link.hasAttribute("download")) return;
    const to = new URL(link.href, location.href);
    if (to.origin !== location.origin || !to.pathname.startsWith(root) || (to.hash && to.pathname === location.pathname)) return;
    event.preventDefault();
    go(to.href);
  });
  let waits = 0;
  document.addEventListener("scroll", () => {
    clearTimeout(waits);
    waits = window.setTimeout(keep, 150);
  }, { capture: true, passive: true });
}
