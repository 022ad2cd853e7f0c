import { useState } from "preact/hooks";
import {
  api, Bar, can, Code, Copy, Facts, Failed, fmt, Glyph, href, Loading, Pane, seg, serverNow, Shown, Status, Tag, Time, toneOf, TraceLink, useQuery, useResource, wordOf,
  type Page,
} from "../../ui";
import { archive, cancel, pause, resume, retry } from "./actions";
import { attemptsOf } from "./attempts";
import { TaskForm } from "./form";
import { Dependencies } from "./graph";
import { actor, dependency, full, plain } from "./text";
import { isOpen, statusOf, toneOfLevel, type LogRow, type Reason, type Task, type Why } from "./types";

/** TaskPane shows one task: why it does not run, its graph, facts, attempts and log. */
export function TaskPane({ id, names, close }: { id: string; names: Map<string, string>; close: () => void }) {
  const watched = { kinds: ["task."], only: (e: { subject?: string; data: Record<string, unknown> }) => mentions(e, id) };
  const task = useResource<Task>("/agent-tasks/" + seg(id), undefined, watched);
  const t = task.data;
  if (t) return <Body key={t.id} t={t} names={names} reload={task.reload} close={close} />;
  return <Pane title="Task" onClose={close}>{task.error ? <Failed error={task.error} retry={task.reload} what="The task" /> : <Loading lines={8} />}</Pane>;
}

// mentions reports whether an event may be about a task; one that names none may be.
const mentions = (e: { subject?: string; data: Record<string, unknown> }, id: string): boolean => {
  const about = e.subject || (e.data.taskId as string | undefined) || (e.data.id as string | undefined);
  return !about || about.includes(id);
};

function Body({ t, names, reload, close }: { t: Task; names: Map<string, string>; reload: () => void; close: () => void }) {
  const [editing, setEditing] = useState(false);
  const [all, setAll] = useState(false);
  const log = useResource<Page<LogRow>>(`/agent-tasks/${seg(t.id)}/logs`, { limit: all ? 200 : 50 }, { kinds: ["task."], only: (e) => mentions(e, t.id) });
  const act = (fn: (t: Task) => Promise<boolean>) => async () => {
    if (await fn(t)) reload();
  };
  const { requiredCapabilities: needs = [], estimatedTokens: estimate } = (t.metadata ?? {}) as { requiredCapabilities?: string[]; estimatedTokens?: number };
  const attempts = attemptsOf(log.data?.items ?? []);
  const status = statusOf(t);
  const agent = t.agentId && <a class="link" href={href("agents/" + seg(t.agentId))}>{names.get(t.agentId) ?? fmt.short(t.agentId, 8)}</a>;
  const foot = (
    <>
      {isOpen(t) && can("patch-agent-task") && <button type="button" class="btn" onClick={() => setEditing(true)}>Edit</button>}
      {["PENDING", "ASSIGNED", "RUNNING"].includes(status) && can("patch-agent-task") && <button type="button" class="btn" onClick={act(pause)}>Pause</button>}
      {status === "PAUSED" && can("patch-agent-task") && <button type="button" class="btn" onClick={act(resume)}>Resume</button>}
      {canRetry(t) && can("retry-agent-task") && <button type="button" class="btn" onClick={act(retry)}>Retry</button>}
      {!isOpen(t) && status !== "ARCHIVED" && can("archive-agent-task") && <button type="button" class="btn" onClick={act(archive)}>Archive</button>}
      {isOpen(t) && can("cancel-agent-task") && <button type="button" class="btn danger" onClick={act(cancel)}>Cancel task</button>}
    </>
  );
  return (
    <Pane title={t.title} status={<Status kind="task" value={status} />} onClose={close} foot={foot}>
      <WhySection t={t} names={names} />
      <Dependencies id={t.id} count={t.dependsOn.length + t.blocks.length} />
      {t.description && <><h3 class="sec">Description</h3><p class="prose">{t.description}</p></>}
      <div class="part">
        <Facts of={[
          ["Priority", t.priority],
          ["Type", t.taskType],
          ["Agent", agent || null],
          ["Needs", needs.length > 0 && needs.map((n) => <Tag key={n}>{n}</Tag>)],
          ["Tags", t.tags.length > 0 && t.tags.map((n) => <Tag key={n}>{n}</Tag>)],
          ["Estimate", estimate ? <>{fmt.tokens(estimate)} tokens</> : t.estimatedDurationMinutes ? fmt.duration(t.estimatedDurationMinutes * 60_000) : null],
          ["Expected", t.estimatedCompletionAt && isOpen(t) ? <Time at={t.estimatedCompletionAt} /> : null],
          ["Retries", <>{t.retryCount} of {t.maxRetries} <span class="muted">· backoff {t.retryBackoffSeconds} s</span></>],
          ["Created", <><Time at={t.createdAt} /> <span class="muted">by {actor(t.createdBy, names)}</span></>],
          ["Ended", t.completedAt || t.failedAt ? <Time at={t.completedAt ?? t.failedAt} /> : null],
          ["Thread", t.threadId ? <a class="link mono" href={href("threads/" + seg(t.threadId))}>{fmt.short(t.threadId)}</a> : null],
          ["Trust", t.outside ? <span class="st warn"><Glyph tone="warn" />Text from outside is in it</span> : null],
          ["Id", <span class="row"><span class="mono trunc">{t.id}</span><Copy text={t.id} small /></span>],
        ]} />
      </div>
      {t.summary && <><h3 class="sec">Summary</h3><p class="prose">{t.summary}</p></>}
      {present(t.inputContext) && <details class="part"><summary class="sec">Input</summary><Code value={t.inputContext} /></details>}
      {present(t.outputResult) && <details class="part" open><summary class="sec">Result</summary><Code value={t.outputResult} /></details>}
      {present(t.checkpointData) && <details class="part"><summary class="sec">Checkpoint</summary><Code value={t.checkpointData} /></details>}
      {attempts.length > 0 && (
        <section class="part">
          <h3 class="sec">Attempts</h3>
          <ol class="attempts">
            {attempts.map((a) => (
              <li key={a.number}>
                <Glyph tone={a.status ? toneOf("task", a.status) : "active"} />
                <span><b>{a.number}</b> {a.agentId && (names.get(a.agentId) ?? fmt.short(a.agentId, 8))}{a.error && <small class="muted">{plain(a.error)}</small>}</span>
                <span class="muted num"><Time at={a.from} />{a.until && ` · ${fmt.duration(+new Date(a.until) - +new Date(a.from))}`}</span>
              </li>
            ))}
          </ol>
        </section>
      )}
      <section class="part">
        <h3 class="sec">Log</h3>
        <Shown of={log} what="The log" lines={3}>
          {(page) => (
            <>
              <ol class="log">
                {page.items.map((row) => (
                  <li key={row.id}>
                    <time dateTime={row.createdAt} title={fmt.full(row.createdAt)}>{fmt.time(row.createdAt)}</time>
                    <Glyph tone={row.newStatus ? toneOf("task", row.newStatus) : toneOfLevel(row.level)} />
                    <span><span class="sr">{row.level} </span>{plain(row.message)} <span class="muted">{actor(row.actor, names)}</span>{row.traceId && <> <TraceLink id={row.traceId} keep={8} /></>}
                      {row.stackTrace && <details><summary>Stack</summary><pre>{row.stackTrace}</pre></details>}</span>
                  </li>
                ))}
              </ol>
              {page.nextCursor && !all && <button type="button" class="btn ghost sm" onClick={() => setAll(true)}>Older entries</button>}
            </>
          )}
        </Shown>
      </section>
      {editing && <TaskForm task={t} onClose={() => setEditing(false)} onDone={reload} />}
    </Pane>
  );
}

const present = (v: unknown): boolean => v !== undefined && v !== null && !(typeof v === "object" && !Object.keys(v).length);

// canRetry: an aborted task may be retried once its backoff is over.
const canRetry = (t: Task): boolean =>
  t.status === "FAILED" || (t.status === "ABORTED" && !t.cancelled && !!t.nextAttemptAt && +new Date(t.nextAttemptAt) < serverNow());

function WhySection({ t, names }: { t: Task; names: Map<string, string> }) {
  const [query] = useQuery();
  const waits = isOpen(t) && t.status !== "RUNNING" && t.status !== "ASSIGNED";
  // What holds a task up may change without an event of its own, such as a budget: it is asked again now and then.
  const why = useResource<Why>(waits || t.status === "FAILED" ? `/agent-tasks/${seg(t.id)}/why` : null, undefined, { kinds: ["task.", "agent.", "budget."], every: 15_000 });
  const now = (): string => {
    switch (statusOf(t)) {
      case "RUNNING":
        return full(t.currentStep || `Attempt ${t.attempt} runs`);
      case "ASSIGNED":
        return `${(t.agentId && names.get(t.agentId)) || "An agent"} has it, and has not begun yet.`;
      case "COMPLETED":
        return t.completedAt ? `Completed at ${fmt.time(t.completedAt, false)}.` : "Completed.";
      case "CANCELLED":
        return t.statusReason ? `Cancelled: ${t.statusReason}` : "Cancelled for good.";
      case "ARCHIVED":
        return "Archived.";
    }
    return full(t.whySummary ?? t.lastError ?? "");
  };
  return (
    <section class="why" aria-live="polite">
      <h3 class="eyebrow">{waits ? "Why it does not run" : t.status === "FAILED" ? "Why it failed" : "Now"}</h3>
      <q>{why.data ? full(why.data.summary) : now()}</q>
      {t.status === "RUNNING" && <><Bar share={t.progressPercent / 100} tone="active" label={`${t.progressPercent} %`} />
        <p class="muted num">{t.progressPercent} %{t.startedAt && <> · since <Time at={t.startedAt} /></>}</p></>}
      {why.error && <p class="muted">{why.error.message}</p>}
      {why.data && why.data.reasons.some((r) => r.taskId || why.data!.reasons.length > 1) && (
        <ol class="chain">
          {why.data.reasons.map((r, i) => (
            <li key={i}>
              <Glyph tone={r.status ? toneOf("task", r.status) : r.code.startsWith("dependency_failed") ? "failed" : "warn"} />
              <span><Waits r={r} />{r.until && <small>until <Time at={r.until} /></small>}</span>
              <span class="row">
                {r.taskId && r.status === "FAILED" && can("retry-agent-task") && (
                  <button type="button" class="btn sm ghost" onClick={() => void retryById(r.taskId!)}>Retry now</button>
                )}
                {r.taskId && <a class="btn sm ghost" href={href("tasks/" + seg(r.taskId), query)}>Open</a>}
                {r.threadId && !r.taskId && <a class="btn sm ghost" href={href("threads/" + seg(r.threadId))}>Open</a>}
              </span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

// Waits is one reason: a task that is waited for is named first.
function Waits({ r }: { r: Reason }) {
  const d = dependency(r.message);
  return d ? <>{d.title} <small>{r.status ? wordOf("task", r.status) : d.is}</small></> : <>{full(r.message)}</>;
}

async function retryById(id: string): Promise<void> {
  const t = await api.get<Task>("/agent-tasks/" + seg(id)).catch(() => ({ id, title: "the task" }));
  await retry(t);
}
