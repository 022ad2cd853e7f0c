import { useState } from "preact/hooks";
import { usePages } from "../../app/pages";
import { bulk } from "../../ui/bulk";
import { FieldsDialog, type Field, type Values } from "../../ui/fields";
import {
  Ago, api, can, Choose, confirm, Copy, Empty, Facts, Failed, Filtered, Filters, fmt, go, href, List, Loading, Menu, Outputs, PageHead, Pane, Problem, Search, seg,
  setQuery, Tag, Time, toast, Toggle, TraceLink, useKeys, useResource, type Page,
} from "../../ui";
import "../../ui/detail.css";
import "./memory.css";
import type { MemoryItem } from "../../app/api.gen";

type Memory = MemoryItem;

const events = { kinds: ["memory.", "activity"], apart: 10_000, every: 60_000 };
const filters = ["q", "category", "agent", "minImportance", "expired"];
const clear = (): void => setQuery(Object.fromEntries(filters.map((f) => [f, null])));

const fieldsOf = (m: Memory | undefined, categories: readonly string[]): Field[] => [
  { name: "content", label: "What to remember", kind: "area", required: true, maxLength: 8000, value: m?.content },
  { name: "category", label: "Category", required: true, maxLength: 100, value: m?.category, suggestions: categories },
  { name: "importance", label: "Importance", kind: "number", required: true, min: 1, max: 10, value: m?.importance ?? 5, hint: "10 is the most important" },
  ...(m ? [] : [{ name: "agent", label: "Who remembers it", maxLength: 255, more: true, hint: "The operator's agent unless said" } as const]),
  { name: "expiresAt", label: "Kept until", value: m?.expiresAt, more: true, hint: "A time such as 2027-01-31T12:00:00Z; for good when left out" },
];

export default function Memories({ id, query }: { id?: string; query: URLSearchParams }) {
  const [creating, setCreating] = useState(false);
  const [picked, setPicked] = useState<Set<string>>(new Set());
  const params = Object.fromEntries(filters.map((f) => [f, query.get(f) ?? undefined]));
  const pages = usePages<Memory>("/memories", { ...params, limit: 100 }, (m) => m.id, events);
  const categories = useResource<Page<{ category: string; count: number }>>("/memory-categories", { limit: 200 }, events);
  const known = categories.data?.items ?? [];
  const agents = [...new Set((pages.items ?? []).map((m) => m.agent))].sort();
  const all = known.reduce((n, c) => n + c.count, 0);
  useKeys({ c: () => { if (can("create-memory")) setCreating(true); } });
  const changed = (): void => {
    pages.reload();
    categories.reload();
  };
  const create = async (v: Values): Promise<void> => {
    const made = await api.post<Memory>("/memories", v);
    toast("It is remembered");
    changed();
    go(href("memory/" + seg(made.id), query));
  };
  const chosen = pages.items?.filter((m) => picked.has(m.id)) ?? [];
  const forget = async (some: readonly Memory[]): Promise<boolean> => {
    const yes = await confirm({
      title: some.length === 1 ? "Forget this memory?" : `Forget ${some.length} memories?`,
      effect: <>{some.slice(0, 3).map((m) => <p key={m.id} class="quote">{m.content.length > 120 ? m.content.slice(0, 120) + "…" : m.content}</p>)}<p>Agents do not find it again.</p></>,
      action: "Forget",
    });
    if (!yes) return false;
    let done = 0;
    for (const m of some) {
      try {
        await api.delete("/memories/" + seg(m.id));
        done++;
      } catch (error) {
        toast(error instanceof Problem ? error.message : String(error));
      }
    }
    if (done) toast(done === 1 ? "Forgotten" : `${done} forgotten`);
    setPicked(new Set());
    changed();
    return done > 0;
  };
  const forgetAll = async (): Promise<void> => {
    if (await bulk({ resource: "memories", filter: { ...params, minImportance: Number(params.minImportance) || undefined }, action: "forget", verb: "Forget", what: "memory", effect: "Agents do not find them again." })) changed();
  };
  const add = can("create-memory") && <button type="button" class="btn primary" onClick={() => setCreating(true)}>New memory <kbd aria-hidden="true">C</kbd></button>;
  const body = () => {
    if (pages.error && !pages.items) return <Failed error={pages.error} what="Memories" retry={pages.reload} />;
    if (!pages.items) return <Loading lines={6} />;
    if (!pages.items.length) {
      return filters.some((f) => query.get(f)) ? <Filtered what="memory" count={all} all="/memories" clear={clear} />
        : <Empty title="Nothing is remembered yet" command={`bin/lanekeeper memories create '{"category":"policy","content":"Refunds above €100 need the owner"}'`} action={add}>
          Agents save here what they want to know next time. You can tell them something here, or with:
        </Empty>;
    }
    return (
      <>
        <div class="ph">
          {chosen.length ? <span role="status">{fmt.count(chosen.length)} selected</span> : <span>{fmt.count(pages.items.length)}{pages.more && "+"} <small>memories</small></span>}
          <span class="grow" />
          {chosen.length > 0 && can("delete-memory") && <button type="button" class="btn sm" onClick={() => void forget(chosen)}>Forget {fmt.count(chosen.length)}…</button>}
          {!chosen.length && !params.expired && can("bulk-memories") && <Menu label="With all that match" items={[["Forget all…", () => void forgetAll()]]} />}
        </div>
        <List rows={pages.items} rowKey={(m) => m.id} selected={id} label="Memories" href={(m) => href("memory/" + seg(m.id), query)} onEnd={pages.more}
          picked={picked} onPick={can("delete-memory") ? setPicked : undefined}
          columns={[
            { key: "content", head: "Memory", cell: (m) => <a class="trunc lnk nb block two" href={href("memory/" + seg(m.id), query)}>{m.content}</a> },
            { key: "category", head: "Category", cell: (m) => <Tag>{m.category}</Tag>, width: "132px", wide: true },
            { key: "importance", head: "Importance", cell: (m) => m.importance, width: "92px", right: true, wide: true, spare: true },
            { key: "agent", head: "Agent", cell: (m) => <span class="trunc block dim">{m.agent}</span>, width: "112px", wide: true, spare: true },
            { key: "until", head: "Kept until", cell: (m) => (m.expiresAt ? <Time at={m.expiresAt} /> : "for good"), width: "112px", wide: true, spare: true },
            { key: "saved", head: "Saved", cell: (m) => <Ago at={m.createdAt} />, width: "104px", right: true },
          ]} />
      </>
    );
  };
  return (
    <div class="page">
      <PageHead title="Memory" acts={<><Outputs path="/memories" params={params} />{add}</>}>What agents remember, by category.</PageHead>
      <div class={id ? "hide-p" : undefined}>
        <Filters>
          <Search placeholder="Search words" />
          {known.slice(0, 6).map((c) => <Toggle key={c.category} name="category" value={c.category}>{c.category} <span class="num muted">{fmt.count(c.count)}</span></Toggle>)}
          {(known.length > 6 || (params.category && !known.some((c) => c.category === params.category))) && (
            <Choose name="category" label="Category" options={known.map((c) => [c.category, `${c.category} (${c.count})`] as const)} />
          )}
          {(agents.length > 1 || params.agent) && <Choose name="agent" label="Agent" options={agents.map((a) => [a, a] as const)} />}
          <Toggle name="minImportance" value="8">Importance 8 and up</Toggle>
          <Toggle name="expired" value="true">With expired</Toggle>
        </Filters>
      </div>
      <div class={"split" + (id ? " open" : " single")} data-wide>
        <section class="panel" aria-label="Memories">{body()}</section>
        {id && <Detail key={id} id={id} categories={known.map((c) => c.category)} close={() => go(href("memory", query))} changed={changed} forget={forget} />}
      </div>
      {creating && <FieldsDialog title="New memory" action="Remember" fields={fieldsOf(undefined, known.map((c) => c.category))} submit={create} onClose={() => setCreating(false)} />}
    </div>
  );
}

function Detail({ id, categories, close, changed, forget }: {
  id: string; categories: readonly string[]; close: () => void; changed: () => void; forget: (some: readonly Memory[]) => Promise<boolean>;
}) {
  const path = "/memories/" + seg(id);
  const one = useResource<Memory>(path);
  const [editing, setEditing] = useState(false);
  const m = one.data;
  if (!m) return <Pane title="Memory" onClose={close}>{one.error ? <Failed error={one.error} what="The memory" retry={one.reload} /> : <Loading />}</Pane>;
  const save = async (v: Values): Promise<void> => {
    await api.patch(path, { content: v.content, category: v.category, importance: v.importance, expiresAt: v.expiresAt ?? null });
    toast("Saved");
    one.reload();
    changed();
  };
  return (
    <Pane title="Memory" status={<Tag>{m.category}</Tag>} onClose={close} foot={(can("patch-memory") || can("delete-memory")) && (
      <>
        {can("patch-memory") && <button type="button" class="btn" onClick={() => setEditing(true)}>Edit</button>}
        {can("delete-memory") && <button type="button" class="btn danger" onClick={() => void forget([m]).then((done) => { if (done) close(); })}>Forget</button>}
      </>
    )}>
      <p class="prose content">{m.content}</p>
      <Facts of={[
        ["Importance", m.importance],
        ["Agent", m.agent],
        ["Saved", <Time at={m.createdAt} />],
        ["Changed", m.updatedAt !== m.createdAt ? <Time at={m.updatedAt} /> : null],
        ["Kept until", m.expiresAt ? <Time at={m.expiresAt} /> : "for good"],
        ["Trace", m.traceId ? <TraceLink id={m.traceId} /> : null],
        ["Id", <span class="row"><span class="mono trunc">{m.id}</span><Copy text={m.id} small /></span>],
      ]} />
      {editing && <FieldsDialog title="Edit the memory" action="Save" fields={fieldsOf(m, categories)} submit={save} onClose={() => setEditing(false)} />}
    </Pane>
  );
}
