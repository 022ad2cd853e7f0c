import type { ComponentChildren } from "preact";
import { href } from "../app/base";
import { serverNow } from "../app/api";
import { fmt, second } from "../app/fmt";
import { Glyph, Icon } from "./icon";
import { type Kind, toneOf, type Tone, wordOf } from "./status";
import { toast } from "./toast";

/**
 * Status shows a status by its colour, shape and word. With bare the word is there for screen readers
 * alone; word replaces it.
 */
export function Status({ value, kind, word, bare }: { value: string; kind: Kind; word?: string; bare?: boolean }) {
  const tone = toneOf(kind, value);
  const text = word ?? wordOf(kind, value);
  return bare
    ? <span class={"st " + tone} title={text}><Glyph tone={tone} /><span class="sr">{text}</span></span>
    : <span class={"st " + tone}><Glyph tone={tone} />{text}</span>;
}

/** Said is a tone's shape with words of one's own. */
export const Said = ({ tone, children }: { tone: Tone; children: ComponentChildren }) => (
  <span class={"st " + tone}><Glyph tone={tone} />{children}</span>
);

/** Ago is how long ago something was; it stays right by itself. */
export function Ago({ at }: { at: string | number | null | undefined }) {
  void second.value;
  return <time class="num" dateTime={at ? new Date(at).toISOString() : undefined} title={fmt.full(at)}>{fmt.ago(at)}</time>;
}

/** Time is a clock time. */
export const Time = ({ at }: { at: string | number | null | undefined }) => (
  <time class="num" dateTime={at ? new Date(at).toISOString() : undefined} title={fmt.full(at)}>{fmt.time(at)}</time>
);

/** Since is how long something lasts already. */
export function Since({ at }: { at: string | number }) {
  void second.value;
  return <time class="num" dateTime={new Date(at).toISOString()} title={fmt.full(at)}>{fmt.duration(Math.max(0, Math.floor((serverNow() - +new Date(at)) / 1000) * 1000))}</time>;
}

/** Countdown is how long is left; never below zero. over is shown from then on. */
export function Countdown({ to, over }: { to: string | number; over?: ComponentChildren }) {
  void second.value;
  const left = +new Date(to) - serverNow();
  if (left <= 0 && over !== undefined) return <>{over}</>;
  return <time class="num" dateTime={new Date(to).toISOString()} title={fmt.full(to)}>{fmt.countdown(left)}</time>;
}

/** Bar is a thin meter: share is between 0 and 1. */
export const Bar = ({ share, tone, label }: { share: number; tone?: Tone; label?: string }) => (
  <span class={"ttl " + (tone ?? "")} role={label ? "img" : undefined} aria-label={label}><i style={{ width: Math.max(0, Math.min(1, share || 0)) * 100 + "%" }} /></span>
);

export const Tag = ({ children, title }: { children: ComponentChildren; title?: string }) => <span class="tag" title={title}>{children}</span>;

export const Chip = ({ tone, children }: { tone?: Tone; children: ComponentChildren }) => <span class={"chip " + (tone ?? "")}>{children}</span>;

/** TraceLink leads to a trace. */
export const TraceLink = ({ id, span, keep }: { id: string | null | undefined; span?: string; keep?: number }) =>
  id ? <a class="mono link" href={href("traces/" + encodeURIComponent(id), { span })} title={id}>{fmt.short(id, keep)}</a> : <span class="muted">–</span>;

/** Facts is a short list of names and values. Facts whose value is null or undefined are left out. */
export const Facts = ({ of, children }: { of?: [ComponentChildren, ComponentChildren][]; children?: ComponentChildren }) => (
  <dl class="kv num">
    {of?.map(([name, value], i) => value === null || value === undefined || value === false ? null : <div key={i}><dt>{name}</dt><dd>{value}</dd></div>)}
    {children}
  </dl>
);

/** copy puts a text into the clipboard and says so. */
export async function copy(text: string, said = "Copied"): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast(said);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    toast(done ? said : "The browser lets nothing be copied here");
  }
}

/** Copy is a button that copies a text, or what a function makes of it. */
export const Copy = ({ text, label, said, small }: { text: string | (() => string); label?: string; said?: string; small?: boolean }) => (
  <button type="button" class={"btn" + (small ? " sm ghost" : "") + (label ? "" : " icon")} aria-label={label ? undefined : "Copy"}
    onClick={() => void copy(typeof text === "string" ? text : text(), said)}>
    <Icon name="copy" />{label}
  </button>
);

/** Json shows a value as JSON, with colours. All of it is text. */
export function Json({ value }: { value: unknown }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  const parts: ComponentChildren[] = [];
  if (typeof value === "string") return <pre>{value}</pre>;
  const token = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/g;
  let from = 0;
  for (let m = token.exec(text); m && parts.length < 4000; m = token.exec(text)) {
    parts.push(text.slice(from, m.index));
    parts.push(<span class={m[2] ? "jk" : m[1] ? "js" : "jn"}>{m[1] ?? m[3]}</span>);
    if (m[2]) parts.push(m[2]);
    from = m.index + m[0].length;
  }
  parts.push(text.slice(from));
  return <pre>{parts}</pre>;
}

/** Code is a box with a text or a value in it. */
export const Code = ({ value }: { value: unknown }) => <div class="code" tabIndex={0} role="region" aria-label="Text"><Json value={value} /></div>;

/** Outside is a link that a model or a visitor wrote: its host is shown, and the page behind it learns nothing. */
export function Outside({ to }: { to: string }) {
  let host = "";
  try {
    const u = new URL(to);
    if (u.protocol !== "https:" && u.protocol !== "http:") return <>{to}</>;
    host = u.host;
  } catch {
    return <>{to}</>;
  }
  return <a class="link" href={to} target="_blank" rel="noopener noreferrer nofollow">{to} <span class="muted">({host})</span></a>;
}
