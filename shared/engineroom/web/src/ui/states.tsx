import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { me, Problem } from "../app/api";
import type { Params } from "../app/base";
import { fmt } from "../app/fmt";
import { useResource } from "../app/resource";
import { choose, others } from "../app/workspace";
import { Glyph } from "./icon";
import { copy } from "./marks";

// here makes a command act on the workspace of this page.
const here = (command: string): string => {
  const slug = me.value?.workspaces?.find((w) => w.id === me.value!.workspaceId)?.slug;
  return slug && slug !== "default" ? `${command} --workspace ${slug}` : command;
};

/** Empty says what a thing is while there is none: a title, a sentence, a command to copy, a button. */
export const Empty = ({ title, children, command, action }: { title?: string; children?: ComponentChildren; command?: string; action?: ComponentChildren }) => (
  <div class="empty">
    <b>{title ?? "Nothing here yet"}</b>
    {children && <span>{children}</span>}
    {command && <code>{here(command)}</code>}
    {action}
  </div>
);

/**
 * Filtered says that there is none with these filters, and how many there are without: count, or what the
 * list has at the path all, with the parameters that are no filters.
 */
export function Filtered({ what, count, all, keep, clear }: { what: string; count?: number | null; all?: string; keep?: Params; clear: () => void }) {
  const read = useResource<{ items: unknown[]; nextCursor?: string | null }>(all && !count ? all : null, { ...keep, limit: 100 });
  const n = count || read.data?.items.length;
  return (
    <div class="empty">
      <b>No {what} matches</b>
      <span>{n ? `${read.data?.nextCursor ? "More than " : ""}${n.toLocaleString("en-US")} without the filters.` : read.data ? "There is none without the filters either." : "Take a filter away to see more."}</span>
      <button type="button" class="btn" onClick={clear}>Clear filters</button>
    </div>
  );
}

/** Clear says that all is well. */
export const Clear = ({ title, children }: { title: string; children?: ComponentChildren }) => (
  <div class="empty"><Glyph tone="done" /><b>{title}</b>{children && <span>{children}</span>}</div>
);

/** Loading is what stands in place of data after 300 ms. */
export function Loading({ lines = 4 }: { lines?: number }) {
  const [late, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="loading" aria-busy="true">
      <span class="sr">Loading</span>
      {late && Array.from({ length: lines }, (_, i) => <div class="sk" key={i} style={{ width: [80, 62, 90, 48][i % 4] + "%" }} />)}
    </div>
  );
}

/** NotAllowed names who may see this. */
export const NotAllowed = ({ children }: { children?: ComponentChildren }) => (
  <div class="empty"><b>You may not see this</b><span>{children ?? "Admins and owners of this workspace may. An owner can give you another role."}</span></div>
);

const mostOthers = 5; // workspaces that are offered

/**
 * Failed names what went wrong, why, and what to do. A refusal for lack of rights is told as such. What is not there
 * may be in another workspace: those are offered.
 */
export function Failed({ error, retry, what }: { error: Problem | Error; retry?: () => void; what?: string }) {
  const p = error instanceof Problem ? error : null;
  if (p?.status === 403) return <NotAllowed>{p.detail || p.title}</NotAllowed>;
  if (p?.status === 404) {
    return (
      <div class="empty">
        <b>{what ?? "This"} is not there</b><span>{p.detail || "It may have been deleted, or it belongs to another workspace."}</span>
        <span class="row">{others().slice(0, mostOthers).map((w) => <button type="button" class="btn" key={w.id} onClick={() => void choose(w.id, location.href)}>Look in {w.name}</button>)}</span>
      </div>
    );
  }
  const details = [error.message, p && `${p.status} ${p.code}`, p?.traceId].filter(Boolean).join("\n");
  return (
    <div class="empty" role="alert">
      <Glyph tone="failed" />
      <b>{what ? `${what} could not be read` : p?.title || "That did not work"}</b>
      <span>{error.message}</span>
      {p?.traceId && <code>{p.traceId}</code>}
      <span class="row">
        {retry && <button type="button" class="btn" onClick={retry}>Try again</button>}
        <button type="button" class="btn ghost" onClick={() => void copy(details)}>Copy details</button>
      </span>
    </div>
  );
}

/** More reads on in a list that has more rows than are on display. */
export const More = ({ of, what }: { of: { data: { items: unknown[] } | undefined; more: (() => void) | undefined }; what: string }) => of.more ? (
  <p class="more-rows">The first {fmt.count(of.data?.items.length ?? 0)} {what} are shown. <button type="button" class="btn sm" onClick={of.more}>Load more</button></p>
) : null;

/** Shown is a resource in whichever state it is: loading, failed, or the data. */
export function Shown<T>({ of, what, lines, children }: {
  of: { data: T | undefined; error: Problem | null; loading: boolean; reload: () => void };
  what?: string; lines?: number; children: (data: T) => ComponentChildren;
}) {
  if (of.data !== undefined) return <>{children(of.data)}</>;
  if (of.error) return <Failed error={of.error} retry={of.reload} what={what} />;
  return <Loading lines={lines} />;
}
