import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { href, type Params } from "../app/base";
import { curl, Problem, send } from "../app/api";
import { useKeys } from "../app/keys";
import { setQuery, useQuery } from "../app/router";
import { Glyph, Icon } from "./icon";
import { copy } from "./marks";
import type { Page } from "../app/types";
import { toast } from "./toast";
import type { Tone } from "./status";

/** PageHead is the head of a page: its one h1, a sentence, what one can do. */
export const PageHead = ({ title, children, acts, crumb }: { title: ComponentChildren; children?: ComponentChildren; acts?: ComponentChildren; crumb?: ComponentChildren }) => (
  <header>
    <div class="grow">{crumb && <p class="eyebrow">{crumb}</p>}<h1>{title}</h1>{children && <p>{children}</p>}</div>
    {acts && <div class="acts">{acts}</div>}
  </header>
);

/** Panel is a card with a head. */
export const Panel = ({ title, note, more, aside, label, class: c, children }: {
  title?: ComponentChildren; note?: ComponentChildren; more?: [string, string]; aside?: ComponentChildren; label?: string; class?: string; children: ComponentChildren;
}) => (
  <section class={"panel " + (c ?? "")} aria-label={label}>
    {title && <h2>{title}{note && <small>{note}</small>}{(aside || more) && <span class="grow" />}{aside}{more && <a class="more" href={href(more[1])}>{more[0]}</a>}</h2>}
    {children}
  </section>
);

/** Pane is the detail beside a list; on a phone it takes the page, and back closes it. Escape closes it too. */
export function Pane({ title, status, onClose, foot, children, label }: {
  title: ComponentChildren; status?: ComponentChildren; onClose: () => void; foot?: ComponentChildren; children: ComponentChildren; label?: string;
}) {
  useKeys({ Escape: onClose });
  return (
    <aside class="panel det" aria-label={label ?? "Detail"}>
      <div class="ph">
        <button type="button" class="btn ghost icon back" aria-label="Back to the list" onClick={onClose}><Icon name="back" /></button>
        <h2 class="trunc">{title}</h2>{status}<span class="grow" />
        <button type="button" class="btn ghost icon shut" aria-label="Close" onClick={onClose}><Icon name="x" /></button>
      </div>
      <div class="det-body">{children}</div>
      {foot && <div class="foot">{foot}</div>}
    </aside>
  );
}

/** Callout is a tinted box at the top of a page. */
export const Callout = ({ tone, title, children, acts }: { tone: Tone; title: ComponentChildren; children?: ComponentChildren; acts?: ComponentChildren }) => (
  <div class={"callout " + tone}><Glyph tone={tone} /><div><b>{title}</b>{children && <p>{children}</p>}</div>{acts && <span class="row">{acts}</span>}</div>
);

/** Search is a field whose text stands in the address, under q or another name. */
export function Search({ name = "q", placeholder }: { name?: string; placeholder: string }) {
  const [query] = useQuery();
  const now = query.get(name) ?? "";
  const [text, setText] = useState(now);
  const field = useRef<HTMLInputElement>(null);
  const typed = useRef(0);
  useLayoutEffect(() => setText(now), [now]); // before anything is typed
  useEffect(() => () => clearTimeout(typed.current), []);
  useKeys({ "/": () => field.current?.focus() });
  const set = (value: string, at: number): void => {
    clearTimeout(typed.current);
    setText(value);
    typed.current = window.setTimeout(() => setQuery({ [name]: value.trim() || null }, now !== ""), at);
  };
  return (
    <label class="search"><Icon name="search" />
      <input ref={field} type="search" value={text} placeholder={placeholder} aria-label={placeholder} enterkeyhint="search"
        onInput={(e) => set(e.currentTarget.value, 250)}
        onKeyDown={(e) => { if (e.key === "Enter") set(text, 0); else if (e.key === "Escape") e.currentTarget.blur(); }} />
      <kbd>/</kbd>
    </label>
  );
}

/** Toggle is a filter in the address that is on or off: it sets name to value. */
export function Toggle({ name, value, children }: { name: string; value: string; children: ComponentChildren }) {
  const [query] = useQuery();
  const on = query.get(name) === value;
  return (
    <button type="button" class={"f" + (on ? " on" : "")} aria-pressed={on} onClick={() => setQuery({ [name]: on ? null : value })}>
      {children}{on && <span aria-hidden="true">×</span>}
    </button>
  );
}

/** Choose is a filter in the address with a list of values. */
export function Choose({ name, label, options }: { name: string; label: string; options: readonly (readonly [string, string])[] }) {
  const [query] = useQuery();
  const now = query.get(name) ?? "";
  return (
    <label class={"f choose" + (now ? " on" : "")}><span class="sr">{label}</span>
      <select value={now} onChange={(e) => setQuery({ [name]: e.currentTarget.value || null })}>
        <option value="">{label}</option>
        {now && !options.some(([v]) => v === now) && <option value={now}>{now}</option>}
        {options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}
      </select>
    </label>
  );
}

/** Filters is the row of filters over a list. */
export const Filters = ({ children }: { children: ComponentChildren }) => <div class="filters" role="group" aria-label="Filters">{children}</div>;

/** Seg is a switch between a few views. */
export const Seg = ({ of, now, onChange, label }: { of: readonly (readonly [string, string])[]; now: string; onChange: (to: string) => void; label: string }) => (
  <span class="seg" role="group" aria-label={label}>
    {of.map(([value, text]) => <button type="button" key={value} aria-pressed={value === now} onClick={() => onChange(value)}>{text}</button>)}
  </span>
);

const mostPages = 50; // in a file: 10,000 rows

/** Outputs gives the rows of a list as a curl command and as files, which have the rows of all its pages. */
export function Outputs({ path, params, small }: { path: string; params?: Params; small?: boolean }) {
  const save = async (csv: boolean): Promise<void> => {
    const csvPages: string[] = [], items: unknown[] = [];
    let cursor: string | null | undefined;
    try {
      for (let n = 0; n < mostPages && (!n || cursor); n++) {
        const answer = await send("GET", path, { params: { ...params, limit: 200, cursor }, headers: { Accept: csv ? "text/csv" : "application/json" } });
        const text = await answer.text();
        if (csv) {
          csvPages.push(n ? text.slice(text.indexOf("\n") + 1) : text); // one head
          cursor = answer.headers.get("X-Next-Cursor");
        } else {
          const page: Page<unknown> = JSON.parse(text) as Page<unknown>;
          items.push(...page.items);
          cursor = page.nextCursor;
        }
      }
    } catch (error) {
      toast("This could not be exported: " + (error instanceof Problem ? error.message : "the answer could not be read"));
      return;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(csv ? new Blob(csvPages, { type: "text/csv" }) : new Blob([JSON.stringify({ items, nextCursor: cursor ?? null })], { type: "application/json" }));
    link.download = path.slice(1).replaceAll("/", "-") + (csv ? ".csv" : ".json");
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    if (cursor) toast("The file has the first 10,000 rows: filter the list for the others");
  };
  return (
    <Menu label="Export" icon="down" small={small} items={[
      ["Copy as curl", () => void copy(curl(path, params), "Copied as curl")],
      ["Download JSON", () => void save(false)],
      ["Download CSV", () => void save(true)],
    ]} />
  );
}

/** Menu is a button that opens a short list of actions. */
export function Menu({ label, icon, items, small }: { label: string; icon?: string; items: [string, () => void][]; small?: boolean }) {
  const [open, set] = useState(false);
  const box = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => { // with the list, so that the first key finds the focus there
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const away = (e: Event): void => {
      if (!box.current?.contains(e.target as Node)) set(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const step = (by: number): void => {
    const all = [...box.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
    all[(all.indexOf(document.activeElement as HTMLElement) + by + all.length) % all.length]?.focus();
  };
  const shut = (): void => {
    set(false);
    box.current?.querySelector("button")?.focus();
  };
  return (
    <span class="menu" ref={box} onKeyDown={(e) => {
      if (!open) return;
      if (e.key === "Escape") { e.stopPropagation(); e.preventDefault(); shut(); }
      if (e.key === "ArrowDown") { e.preventDefault(); step(1); }
      if (e.key === "ArrowUp") { e.preventDefault(); step(-1); }
    }}>
      <button type="button" class={"btn" + (small ? " sm ghost icon" : "")} aria-haspopup="menu" aria-expanded={open} aria-label={small ? label : undefined} onClick={() => set(!open)}>
        {icon && <Icon name={icon} />}{!small && label}
      </button>
      {open && (
        <div class="menu-items enter" role="menu" aria-label={label}>
          {items.map(([text, act]) => <button type="button" role="menuitem" key={text} onClick={() => { shut(); act(); }}>{text}</button>)}
        </div>
      )}
    </span>
  );
}

/** Field is a labelled field of a form. */
export const Field = ({ label, error, note, children }: { label: string; error?: string; note?: string; children: ComponentChildren }) => (
  <label class="field"><span>{label}</span>{children}{note && <small>{note}</small>}{error && <small class="err" role="alert">{error}</small>}</label>
);

/** Sheet is a dialog with a form of one's own. */
export function Sheet({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current!.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} onCancel={(e) => { e.preventDefault(); onClose(); }}
      onClick={(e) => { if (e.target === dialog.current) onClose(); }}>
      <div class="dlg"><h2>{title}</h2>{children}</div>
    </dialog>
  );
}

/** useWidth measures an element. */
export function useWidth<E extends HTMLElement>(): [RefObject<E | null>, number] {
  const ref = useRef<E>(null);
  const [width, set] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => set(Math.floor(entry!.contentRect.width)));
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

