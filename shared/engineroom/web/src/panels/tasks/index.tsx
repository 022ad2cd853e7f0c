import { useMemo, useState } from "preact/hooks";
import { usePages } from "../../app/pages";
import { bulk, type Filter } from "../../ui/bulk";
import {
  Ago, can, Choose, Empty, Failed, Filtered, Filters, fmt, go, href, List, Loading, Menu, Outputs, PageHead, Search, seg, Seg, serverNow, setQuery,
  Status, Tag, Toggle, useKeys, useResource, wordOf, type Column, type Page,
} from "../../ui";
import { archive, cancel, pause, resume, retry } from "./actions";
import { Board, type Shelf } from "./board";
import { TaskForm } from "./form";
import { TaskPane } from "./pane";
import { short, since } from "./text";
import { reasonOptions, statusOf, type Task } from "./types";
import "../../ui/detail.css";
import "./tasks.css";

const statuses = ["PENDING", "ABORTED", "PAUSED", "RUNNING", "ASSIGNED", "FAILED", "COMPLETED"] as const;
const lengths: Record<string, number> = { PENDING: 200, FAILED: 20, COMPLETED: 20 };
const filters = ["q", "minPriority", "agentId", "taskType", "tags", "projectId", "since", "reasonCode", "status"];

export default function Tasks({ id, query }: { id?: string; query: URLSearchParams }) {
  const [creating, setCreating] = useState(false);
  const list = query.get("view") === "list" || query.get("status") === "ARCHIVED";
  const agents = useResource<Page<{ id: string; name: string }>>("/agents", { limit: 200 }, { kinds: ["agent."], every: 300_000 });
  const projects = useResource<Page<{ id: string; name: string }>>("/projects", { limit: 200 });
  const names = useMemo(() => new Map(agents.data?.items.map((a) => [a.id, a.name])), [agents.data]);
  const filter: Filter = {
    search: query.get("q") ?? undefined,
    minPriority: Number(query.get("minPriority")) || undefined,
    agentId: query.get("agentId") ?? undefined,
    taskType: query.get("taskType") ?? undefined,
    tags: query.get("tags") ?? undefined,
    projectId: query.get("projectId") ?? undefined,
    reasonCode: query.get("reasonCode") ?? undefined,
    createdAfter: since(query.get("since"), serverNow()),
  };
  const close = (): void => go(href("tasks", query));
  useKeys({ c: () => { if (can("create-agent-task")) setCreating(true); } });
  return (
    <div class="page">
      <PageHead title="Tasks" acts={
        <>
          <Seg label="View" of={[["board", "Board"], ["list", "List"]]} now={list ? "list" : "board"} onChange={(to) => setQuery({ view: to === "list" ? to : null })} />
          {can("create-agent-task") && <button type="button" class="btn primary" onClick={() => setCreating(true)}>New task <kbd aria-hidden="true">C</kbd></button>}
        </>
      }>What waits is grouped by the reason why it waits.</PageHead>
      <div class={id ? "hide-p" : undefined}>
        <Filters>
          <Search placeholder="Search title and description" />
          <Toggle name="minPriority" value="8">Priority 8 and up</Toggle>
          <Choose name="agentId" label="Agent" options={(agents.data?.items ?? []).map((a) => [a.id, a.name] as const)} />
          {(projects.data?.items.length ?? 0) > 0 && <Choose name="projectId" label="Project" options={projects.data!.items.map((p) => [p.id, p.name] as const)} />}
          <Choose name="reasonCode" label="Reason" options={reasonOptions} />
          <Choose name="status" label="Status" options={[...statuses, "ARCHIVED"].map((s) => [s, wordOf("task", s)] as const)} />
          <Choose name="since" label="Created" options={[["-24h", "Last 24 hours"], ["-7d", "Last 7 days"], ["-30d", "Last 30 days"]]} />
          {query.get("tags") && <button type="button" class="f on" onClick={() => setQuery({ tags: null })}>Tag <b>{query.get("tags")}</b> <span aria-hidden="true">×</span></button>}
        </Filters>
      </div>
      <div class={"split" + (id ? " open" : list ? " single" : "")} data-wide>
        <div>
          {list ? <TaskList query={query} filter={filter} names={names} selected={id} onCreate={() => setCreating(true)} />
            : <TaskBoard query={query} filter={filter} names={names} selected={id} onCreate={() => setCreating(true)} />}
        </div>
        {id ? <TaskPane id={id} names={names} close={close} /> : !list && <Nothing />}
      </div>
      {creating && <TaskForm onClose={() => setCreating(false)} />}
    </div>
  );
}

const Nothing = () => <aside class="panel det" aria-label="Detail"><div class="empty"><b>No task is open</b><span>Open one to see why it waits, what it depends on, and what happened to it.</span></div></aside>;

interface Props {
  query: URLSearchParams;
  filter: Filter;
  names: Map<string, string>;
  selected?: string;
  onCreate: () => void;
}

const filtered = (query: URLSearchParams): boolean => filters.some((f) => query.get(f));
const clear = (): void => setQuery(Object.fromEntries(filters.map((f) => [f, null])));

const NoTask = ({ onCreate }: { onCreate: () => void }) => (
  <section class="panel">
    <Empty title="No task yet" command={'bin/lanekeeper tasks create "Check broken links"'}
      action={can("create-agent-task") && <button type="button" class="btn primary" onClick={onCreate}>New task</button>}>
      A task is durable work for an agent. Create one here, or with:
    </Empty>
  </section>
);

function TaskBoard({ query, filter, names, selected, onCreate }: Props) {
  const only = query.get("status");
  const found = statuses.map((status) =>
    // The list is of a constant length, and so are the hooks.
    useResource<Page<Task>>(only && only !== status ? null : "/agent-tasks",
      { ...filter, status, limit: lengths[status] ?? 50, sort: status === "PENDING" ? "-priority" : undefined }, { kinds: ["task."], apart: 5000 }),
  );
  const cards = (): HTMLAnchorElement[] => [...document.querySelectorAll<HTMLAnchorElement>(".board .card")];
  const step = (by: number) => (): void => {
    const all = cards();
    const at = all.findIndex((c) => c.getAttribute("aria-current") === "true");
    const next = all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))];
    next?.focus();
    if (next) go(next.href, at >= 0);
  };
  useKeys({ j: step(1), k: step(-1) });
  const failed = found.find((r) => r.error && !r.data);
  if (failed?.error) return <section class="panel"><Failed error={failed.error} what="Tasks" retry={() => found.forEach((r) => r.reload())} /></section>;
  if (found.some((r) => r.loading && r.data === undefined)) return <section class="panel"><Loading lines={8} /></section>;
  const shelves: Record<string, Shelf | undefined> = {};
  statuses.forEach((status, i) => {
    const page = found[i]!.data;
    if (page) shelves[status] = { items: page.items, more: !!page.nextCursor };
  });
  if (Object.values(shelves).every((s) => !s?.items.length)) {
    return filtered(query) ? <section class="panel"><Filtered what="task" all="/agent-tasks" clear={clear} /></section> : <NoTask onCreate={onCreate} />;
  }
  return <Board shelves={shelves} names={names} selected={selected} />;
}

const actions = [
  ["cancel", "Cancel", "Each is aborted for good. The tasks that depend on one of them will fail."],
  ["pause", "Pause", "An attempt under way ends. Each task keeps its checkpoint and waits until it is resumed."],
  ["resume", "Resume", "Each waits for an agent again, and goes on from its checkpoint."],
  ["retry", "Retry", "Each gets all its retries back and waits for an agent."],
  ["archive", "Archive", "Each is put away. It can still be found by the status Archived."],
] as const;

const one: Record<string, (t: Task) => Promise<boolean>> = { cancel, pause, resume, retry, archive };

function TaskList({ query, filter, names, selected, onCreate }: Props) {
  const params = { ...filter, status: query.get("status") ?? undefined };
  const [picked, setPicked] = useState<Set<string>>(new Set());
  const shown = useMemo(() => columns(query, names).filter((c) => !selected || !["why", "agent"].includes(c.key)), [query, names, !selected]);
  const pages = usePages<Task>("/agent-tasks", { ...params, limit: 100 }, (t) => t.id, { kinds: ["task."] });
  if (pages.error && !pages.items) return <section class="panel"><Failed error={pages.error} what="Tasks" retry={pages.reload} /></section>;
  if (!pages.items) return <section class="panel"><Loading lines={8} /></section>;
  const tasks = pages.items;
  if (!tasks.length) return filtered(query) ? <section class="panel"><Filtered what="task" all="/agent-tasks" clear={clear} /></section> : <NoTask onCreate={onCreate} />;
  const chosen = tasks.filter((t) => picked.has(t.id));
  const each = async (action: string): Promise<void> => {
    for (const t of chosen) await one[action]!(t);
    setPicked(new Set());
    pages.reload();
  };
  const all = async ([action, verb, effect]: (typeof actions)[number]): Promise<void> => {
    if (await bulk({ resource: "agent-tasks", filter: params, action, verb, what: "task", effect, calm: action !== "cancel" })) pages.reload();
  };
  return (
    <section class="panel" aria-label="Tasks">
      <div class="ph">
        {chosen.length ? <span role="status">{fmt.plural(chosen.length, "task")} selected</span> : <>{fmt.count(tasks.length)}{pages.more && "+"} <small>tasks</small></>}
        <span class="grow" />
        {chosen.length > 0 && <button type="button" class="btn sm ghost" onClick={() => setPicked(new Set())}>Select none</button>}
        {chosen.length > 0 ? <Menu label={"With " + fmt.plural(chosen.length, "task")} items={actions.map(([action, verb]) => [verb, () => void each(action)])} />
          : can("bulk-agent-tasks") && <Menu label="With all that match" items={actions.map((a) => [a[1] + " all…", () => void all(a)])} />}
        <Outputs path="/agent-tasks" params={params} />
      </div>
      <List rows={tasks} rowKey={(t) => t.id} selected={selected} label="Tasks" href={(t) => href("tasks/" + seg(t.id), query)}
        picked={picked} onPick={setPicked} onEnd={pages.more} columns={shown} />
    </section>
  );
}

const columns = (query: URLSearchParams, names: Map<string, string>): Column<Task>[] => [
  { key: "task", head: "Task", cell: (t) => <a class="row lnk" href={href("tasks/" + seg(t.id), query)}><b class="trunc nb two">{t.title}</b>{t.tags.slice(0, 2).map((n) => <span key={n} class="wide"><Tag>{n}</Tag></span>)}</a> },
  { key: "status", head: "Status", cell: (t) => <Status kind="task" value={statusOf(t)} />, width: "118px" },
  { key: "why", head: "Why", cell: (t) => <span class="trunc block muted">{short(t.whySummary ?? t.lastError ?? t.currentStep ?? "")}</span>, width: "28%", wide: true },
  { key: "agent", head: "Agent", cell: (t) => <span class="trunc block">{t.agentId ? names.get(t.agentId) ?? fmt.short(t.agentId, 8) : "–"}</span>, width: "110px", wide: true },
  { key: "priority", head: "Prio", cell: (t) => t.priority, width: "56px", right: true },
  { key: "created", head: "Created", cell: (t) => <Ago at={t.createdAt} />, width: "110px", right: true, wide: true },
];
