import { useState } from "preact/hooks";
import { usePages } from "../../app/pages";
import { FieldsDialog, type Field, type Values } from "../../ui/fields";
import {
  Ago, api, Bar, can, Choose, Code, confirm, Copy, Empty, Facts, Failed, Filtered, Filters, fmt, Glyph, go, href, List, Loading, Menu, Outputs, PageHead, Pane,
  Problem, Search, seg, setQuery, Sheet, Shown, Status, Tag, Time, toast, toneOf, useKeys, useResource, wordOf, type Page,
} from "../../ui";
import { plain } from "../tasks/text";
import { statusOf, type Task } from "../tasks/types";
import "../../ui/detail.css";
import "./agents.css";
import type { AgentHealth, AgentItem } from "../../app/api.gen";

type Agent = AgentItem;

type Health = AgentHealth;

const statuses = ["IDLE", "WORKING", "DEGRADED", "ERROR", "DRAINING", "TERMINATED"];
const events = { kinds: ["agent.", "task."], every: 15_000 }; // heartbeats have no event of their own

const fieldsOf = (a?: Agent): Field[] => [
  { name: "name", label: "Name", required: true, maxLength: 255, value: a?.name },
  { name: "capabilities", label: "Capabilities", kind: "tags", value: a?.capabilities, hint: "With commas between. A task goes only to agents with all that it requires" },
  { name: "spawner", label: "How it starts", kind: "select", value: a?.spawner ?? "pull", options: [["pull", "It runs already, and claims its tasks"], ["builtin", "The built-in worker"], ["lambda", "A Lambda function"], ["http", "By HTTP"]] },
  { name: "spawnerTarget", label: "What is started", maxLength: 2048, value: a?.spawnerTarget, hint: "Such as the name of a function" },
  { name: "maxConcurrentTasks", label: "Tasks at once", kind: "number", required: true, min: 1, max: 1000, value: a?.maxConcurrentTasks ?? 1 },
  { name: "coordinatorEnabled", label: "The coordinator may give it tasks", kind: "check", value: a?.coordinatorEnabled ?? true },
  { name: "model", label: "Model", maxLength: 255, value: a?.model, more: true },
  { name: "heartbeatIntervalSeconds", label: "Seconds between heartbeats", kind: "number", required: true, min: 1, max: 86400, value: a?.heartbeatIntervalSeconds ?? 30, more: true },
  { name: "staleThresholdSeconds", label: "Seconds of silence after which its tasks go to others", kind: "number", required: true, min: 1, max: 604800, value: a?.staleThresholdSeconds ?? 180, more: true },
];

// lost reports whether an agent was silent for too long. One that the product starts for each task, and whose
// task may wait for a person, is lost only where its tasks went to others.
const lost = (a: Agent): boolean => a.status === "ERROR" || (a.health === "stale" && a.spawner === "pull" && a.status !== "TERMINATED");

/** Beat is when an agent was heard of last, and whether that is too long ago. */
const Beat = ({ a }: { a: Agent }) => (
  <>{a.lastSeenAt ? <span class={lost(a) ? "err" : undefined}><Ago at={a.lastSeenAt} /></span> : <span class="muted">never</span>}</>
);

const Load = ({ a }: { a: Agent }) => (
  <span class="load"><Bar share={a.openTasks / a.maxConcurrentTasks} label={`${a.openTasks} of ${a.maxConcurrentTasks} tasks`} /><small class="num">{a.openTasks} of {a.maxConcurrentTasks}</small></span>
);

// now says what an agent does, in a few words.
function now(a: Agent): string {
  if (a.currentStep && a.openTasks > 0) return plain(a.currentStep);
  switch (a.status) {
    case "DEGRADED":
      return "no new work until it beats";
    case "ERROR":
      return "was not heard of; its tasks went to others";
    case "DRAINING":
      return a.openTasks ? "ends after its tasks" : "ends";
    case "TERMINATED":
      return a.terminationReason || "ended for good";
    case "WORKING":
      return fmt.plural(a.openTasks, "task");
  }
  return a.coordinatorEnabled ? "waits for a task" : "gets no tasks from the coordinator";
}

export default function Agents({ id, query }: { id?: string; query: URLSearchParams }) {
  const [creating, setCreating] = useState(false);
  const [token, setToken] = useState<{ name: string; token: string } | null>(null);
  const q = query.get("q")?.toLowerCase();
  const params = { status: query.get("status"), capability: query.get("capability") };
  const pages = usePages<Agent>("/agents", { ...params, limit: 200 }, (a) => a.id, events);
  useKeys({ c: () => { if (can("register-agent")) setCreating(true); } });
  const rows = q ? pages.items?.filter((a) => `${a.name} ${a.capabilities.join(" ")}`.toLowerCase().includes(q)) : pages.items;
  const capabilities = [...new Set((pages.items ?? []).flatMap((a) => a.capabilities))].sort();
  const register = async (v: Values): Promise<void> => {
    const made = await api.put<Agent & { token?: string }>("/agents/" + newId(), v);
    if (made.token) setToken({ name: made.name, token: made.token });
    pages.reload();
    go(href("agents/" + seg(made.id)));
  };
  const add = can("register-agent") && <button type="button" class="btn primary" onClick={() => setCreating(true)}>Register agent <kbd aria-hidden="true">C</kbd></button>;
  const body = () => {
    if (pages.error && !pages.items) return <Failed error={pages.error} what="Agents" retry={pages.reload} />;
    if (!rows) return <Loading lines={6} />;
    if (!rows.length) {
      return q || params.status || params.capability
        ? <Filtered what="agent" count={q ? pages.items?.length : null} all="/agents" clear={() => setQuery({ q: null, status: null, capability: null })} />
        : <Empty title="No agent yet" command={`bin/lanekeeper agents register new '{"name":"builder"}'`} action={add}>An agent does tasks: the built-in worker, a function, or a program of yours that claims them.</Empty>;
    }
    return (
      <List rows={rows} rowKey={(a) => a.id} selected={id} label="Agents" href={(a) => href("agents/" + seg(a.id), query)} onEnd={pages.more}
        columns={[
          { key: "name", head: "Agent", cell: (a) => <a class="trunc lnk nb block two" href={href("agents/" + seg(a.id), query)}>{a.name}</a> },
          { key: "status", head: "Status", cell: (a) => <Status kind="agent" value={a.status} />, width: "116px" },
          { key: "load", head: "Load", cell: (a) => <Load a={a} />, width: "76px" },
          { key: "capabilities", head: "Capabilities", cell: (a) => <span class="trunc block dim">{a.capabilities.join(", ") || "–"}</span>, width: "18%", wide: true, spare: true },
          { key: "beat", head: "Last beat", cell: (a) => <Beat a={a} />, width: "104px", wide: true },
          { key: "now", head: "Now", cell: (a) => <span class="trunc block dim">{now(a)}</span>, width: "26%", wide: true },
        ]} />
    );
  };
  return (
    <div class="page">
      <PageHead title="Agents" acts={add}>Who does the work, and when each was heard of last.</PageHead>
      <div class={id ? "hide-p" : undefined}>
        <Filters>
          <Search placeholder="Search name and capability" />
          <Choose name="status" label="Status" options={statuses.map((s) => [s, wordOf("agent", s)] as const)} />
          {(capabilities.length > 0 || params.capability) && <Choose name="capability" label="Capability" options={capabilities.map((c) => [c, c] as const)} />}
          <span class="grow" /><Outputs path="/agents" params={params} />
        </Filters>
      </div>
      <div class={"split" + (id ? " open" : " single")} data-wide>
        <section class="panel" aria-label="Agents">{body()}</section>
        {id && <Detail key={id} id={id} close={() => go(href("agents", query))} changed={pages.reload} showToken={setToken} />}
      </div>
      {creating && <FieldsDialog title="Register an agent" action="Register" fields={fieldsOf()} submit={register} onClose={() => setCreating(false)} />}
      {token && (
        <Sheet title={`The token of ${token.name}`} onClose={() => setToken(null)}>
          <p>It is shown this once. The agent sends it as <code>Authorization: Bearer …</code>. It is valid for 90 days, or until the next one is made.</p>
          <Code value={token.token} />
          <div class="foot"><Copy text={token.token} label="Copy token" /><button type="button" class="btn primary" onClick={() => setToken(null)}>Done</button></div>
        </Sheet>
      )}
    </div>
  );
}

// newId is a random UUID, also where the page is served without TLS.
function newId(): string {
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6]! & 15) | 64;
  b[8] = (b[8]! & 63) | 128;
  const hex = [...b].map((n) => n.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function Detail({ id, close, changed, showToken }: { id: string; close: () => void; changed: () => void; showToken: (t: { name: string; token: string }) => void }) {
  const path = "/agents/" + seg(id);
  const one = useResource<Agent>(path, undefined, events);
  const health = useResource<Health>(path + "/health", undefined, events);
  const tasks = useResource<Page<Task>>(path + "/tasks", { limit: 20 }, { kinds: ["task."] });
  const [editing, setEditing] = useState(false);
  const [ending, setEnding] = useState(false);
  const a = one.data;
  if (!a) return <Pane title="Agent" onClose={close}>{one.error ? <Failed error={one.error} what="The agent" retry={one.reload} /> : <Loading />}</Pane>;
  const over = a.status === "TERMINATED";
  const tried = async (action: () => Promise<unknown>, said: string): Promise<void> => {
    try {
      await action();
      toast(said);
      one.reload();
      changed();
    } catch (error) {
      toast(error instanceof Problem ? error.message : String(error));
    }
  };
  const command = (name: string, verb: string, effect: string) => async (): Promise<void> => {
    const yes = await confirm({ title: `${verb} ${a.name}?`, effect, action: verb, reason: true, optional: true, calm: true });
    if (yes) await tried(() => api.post("/coordinator/commands", { command: name, agentId: a.id, reason: yes.reason || undefined }), `The next cycle does it: ${verb.toLowerCase()} ${a.name}`);
  };
  const rotate = async (): Promise<void> => {
    const yes = await confirm({ title: `Make a new token for ${a.name}?`, effect: "The one before is invalid at once: what runs with it is refused from then on.", action: "Make a new token" });
    if (!yes) return;
    try {
      showToken({ name: a.name, token: (await api.post<{ token: string }>(path + "/token")).token });
    } catch (error) {
      toast(error instanceof Problem ? error.message : String(error));
    }
  };
  const save = async (v: Values): Promise<void> => {
    await api.put(path, v);
    toast(`Saved: ${v.name as string}`);
    one.reload();
    changed();
  };
  const terminate = async (v: Values): Promise<void> => {
    await api.post(path + "/terminate", { reason: v.reason, graceful: v.how === "after" });
    toast(v.how === "after" ? `${a.name} ends after its tasks` : `Terminated: ${a.name}`);
    one.reload();
    changed();
  };
  return (
    <Pane title={a.name} status={<Status kind="agent" value={a.status} />} onClose={close} foot={!over && can("register-agent") && (
      <>
        <button type="button" class="btn" onClick={() => setEditing(true)}>Edit</button>
        <Menu label="More" items={[
          ["Pause…", () => void command("pause_agent", "Pause", "It gets no new tasks until it is enabled for the coordinator again. It keeps what it has.")()],
          ["Drain…", () => void command("drain_agent", "Drain", "It finishes the tasks that it has, gets no more, and ends.")()],
          ["New token…", () => void rotate()],
        ]} />
        {can("terminate-agent") && <button type="button" class="btn danger" onClick={() => setEnding(true)}>Terminate</button>}
      </>
    )}>
      <section class="why">
        <h3 class="eyebrow">Now</h3>
        <q>{now(a).replace(/^./, (c) => c.toUpperCase())}.</q>
        {a.openTasks > 0 && a.progressPercent !== undefined && <Bar share={a.progressPercent / 100} tone="active" label={`${a.progressPercent} %`} />}
      </section>
      <Facts of={[
        ["Load", `${a.openTasks} of ${a.maxConcurrentTasks} ${a.maxConcurrentTasks === 1 ? "task" : "tasks"}`],
        ["Last beat", <><Beat a={a} /> {a.spawner === "pull" && <span class="muted">· every {a.heartbeatIntervalSeconds} s, lost after {fmt.duration(a.staleThresholdSeconds * 1000)}</span>}</>],
        ["Idle since", a.idleSince && a.status === "IDLE" ? <Ago at={a.idleSince} /> : null],
        ["Capabilities", a.capabilities.length > 0 && a.capabilities.map((c) => <><Tag>{c}</Tag> </>)],
        ["Starts", a.spawner + (a.spawnerTarget ? ` · ${a.spawnerTarget}` : "")],
        ["Model", a.model || null],
        ["Memory", a.memoryMb !== undefined ? `${fmt.count(Math.round(a.memoryMb))} MB` : null],
        ["Processor", a.cpuPercent !== undefined ? `${Math.round(a.cpuPercent)} % of one core` : null],
        ["Coordinator", a.coordinatorEnabled ? "gives it tasks" : "gives it none"],
        ["Terminated", a.terminatedAt ? <><Time at={a.terminatedAt} /> {a.terminationReason}</> : null],
        ["Created", <><Time at={a.createdAt} /> <span class="muted">by {a.createdBy}</span></>],
        ["Id", <span class="row"><span class="mono trunc">{a.id}</span><Copy text={a.id} small /></span>],
      ]} />
      <h3 class="sec">Tasks <a class="more" href={href("tasks", { view: "list", agentId: a.id })}>All</a></h3>
      <Shown of={tasks} what="Its tasks" lines={3}>
        {(page) => page.items.length ? (
          <ul class="tasks-of">
            {page.items.map((t) => (
              <li key={t.id}><Glyph tone={toneOf("task", statusOf(t))} /><a class="trunc lnk" href={href("tasks/" + seg(t.id))}>{t.title}<span class="sr">, {wordOf("task", statusOf(t))}</span></a><span class="muted"><Ago at={t.updatedAt} /></span></li>
            ))}
          </ul>
        ) : <p class="prose muted">It has had no task yet.</p>}
      </Shown>
      <h3 class="sec">Latest heartbeats</h3>
      <Shown of={health} what="Its heartbeats" lines={3}>
        {(h) => h.heartbeats.length ? (
          <ol class="log">
            {h.heartbeats.slice(0, 12).map((b) => (
              <li key={b.createdAt}><time dateTime={b.createdAt} title={fmt.full(b.createdAt)}>{fmt.clock(b.createdAt)}</time><Glyph tone={toneOf("agent", b.status)} />
                <span>{wordOf("agent", b.status)}{b.currentStep && ` · ${plain(b.currentStep)}`}{b.memoryMb !== undefined && <span class="muted"> · {Math.round(b.memoryMb)} MB</span>}</span></li>
            ))}
          </ol>
        ) : <p class="prose muted">None came lately.</p>}
      </Shown>
      {editing && <FieldsDialog title={`Edit ${a.name}`} action="Save" fields={fieldsOf(a)} submit={save} onClose={() => setEditing(false)} />}
      {ending && (
        <FieldsDialog title={`Terminate ${a.name}?`} action="Terminate" danger submit={terminate} onClose={() => setEnding(false)}
          lead={a.openTasks ? `It has ${fmt.plural(a.openTasks, "task")}. It ends for good, and its token is invalid. Recorded under your name.` : "It ends for good, and its token is invalid. Recorded under your name."}
          fields={[
            { name: "how", label: "Its tasks", kind: "select", value: "after", options: [["after", "It finishes them first, and gets no more"], ["now", "They are given to others at once"]] },
            { name: "reason", label: "Reason", required: true, maxLength: 500 },
          ]} />
      )}
    </Pane>
  );
}
