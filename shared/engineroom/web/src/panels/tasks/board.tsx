import { useState } from "preact/hooks";
import { Bar, fmt, Glyph, href, seg, toneOf, useQuery, wordOf } from "../../ui";
import { Since } from "../../ui/marks";
import { full, plain, short } from "./text";
import { byReason, reasonTitle, statusOf, type Task } from "./types";

const some = 12; // cards of a group before "more"

/** Shelf holds the tasks of one status. */
export interface Shelf {
  items: Task[];
  more: boolean; // there are more than those
}

function subtitle(t: Task, names: Map<string, string>) {
  const agent = t.agentId && (names.get(t.agentId) ?? (names.size ? fmt.short(t.agentId, 8) : "")); // the names come a little later
  const parts = (...list: (string | undefined | false)[]): string => list.filter(Boolean).join(" · ");
  switch (statusOf(t)) {
    case "RUNNING":
      return <>{parts(agent, t.currentStep)}{t.startedAt && <>{(agent || t.currentStep) && " · "}<Since at={t.startedAt} /></>}</>;
    case "ASSIGNED":
      return parts(agent, "has not begun yet");
    case "COMPLETED":
      return parts(agent, t.startedAt && t.completedAt && fmt.duration(+new Date(t.completedAt) - +new Date(t.startedAt)), t.completedAt && fmt.time(t.completedAt, false));
    case "FAILED":
      return parts(plain(t.lastError ?? ""), t.failedAt && fmt.time(t.failedAt, false));
    case "CANCELLED":
      return parts(t.statusReason || "cancelled", fmt.time(t.updatedAt, false));
    case "PAUSED":
      return short(t.whySummary ?? t.statusReason ?? "until somebody resumes it");
    case "ABORTED":
      return short(t.whySummary ?? parts(`retry ${t.retryCount} of ${t.maxRetries}`, t.nextAttemptAt && "again at " + fmt.time(t.nextAttemptAt, false)));
  }
  return short(t.whySummary ?? "");
}

function Card({ t, names, selected }: { t: Task; names: Map<string, string>; selected: boolean }) {
  const [query] = useQuery();
  const status = statusOf(t);
  return (
    <a class="card" data-row={t.id} href={href("tasks/" + seg(t.id), query)} aria-current={selected ? "true" : undefined}>
      <h4>
        <Glyph tone={toneOf("task", status)} />
        <span class="grow">{t.title}</span><span class="sr">{wordOf("task", status)}</span>
        <span class="tag" title="Priority"><span class="sr">priority </span>P{t.priority}</span>
      </h4>
      <p title={t.whySummary ? full(t.whySummary) : undefined}>{subtitle(t, names)}</p>
      {status === "RUNNING" && t.progressPercent > 0 && <Bar share={t.progressPercent / 100} tone="active" label={`${t.progressPercent} %`} />}
    </a>
  );
}

function Group({ title, tasks, more, to, names, selected }: {
  title: string; tasks: Task[]; more?: boolean; to?: string; names: Map<string, string>; selected?: string;
}) {
  const [all, setAll] = useState(false);
  if (!tasks.length) return null;
  const shown = all ? tasks : tasks.slice(0, some);
  const left = tasks.length - shown.length;
  return (
    <section>
      <h3 class="grp">{title} <span class="num">{tasks.length}{more && "+"}</span></h3>
      {shown.map((t) => <Card key={t.id} t={t} names={names} selected={t.id === selected} />)}
      {left > 0 ? <button type="button" class="btn ghost sm" onClick={() => setAll(true)}>{fmt.count(left)} more</button>
        : more && to && <a class="btn ghost sm" href={to}>More in the list</a>}
    </section>
  );
}

/** Board shows tasks in three columns: what waits, grouped by the reason, what works, and what ended. */
export function Board({ shelves, names, selected }: { shelves: Record<string, Shelf | undefined>; names: Map<string, string>; selected?: string }) {
  const [query] = useQuery();
  const list = (status: string): string => {
    const q = new URLSearchParams(query);
    q.set("view", "list");
    q.set("status", status);
    return href("tasks", q);
  };
  const of = (status: string): Task[] => shelves[status]?.items ?? [];
  const more = (...statuses: string[]): boolean => statuses.some((s) => shelves[s]?.more);
  const aborted = of("ABORTED");
  const waiting = [...of("PENDING"), ...aborted.filter((t) => !t.cancelled), ...of("PAUSED")];
  const cancelled = aborted.filter((t) => t.cancelled);
  const groups = byReason(waiting);
  const number = (n: number, ...statuses: string[]) => <small class="num">{fmt.count(n)}{more(...statuses) && "+"}</small>;
  const working = of("RUNNING").length + of("ASSIGNED").length;
  const group = { names, selected };
  return (
    <div class="board">
      <section class="col" aria-label="Waiting">
        <h2>Waiting {number(waiting.length, "PENDING", "ABORTED", "PAUSED")}</h2>
        {groups.map(([code, tasks]) => <Group key={code} title={reasonTitle(code)} tasks={tasks} {...group} />)}
        {more("PENDING") && <a class="btn ghost sm" href={list("PENDING")}>More in the list</a>}
        {!waiting.length && <p class="none">Nothing waits.</p>}
      </section>
      <section class="col" aria-label="Working">
        <h2>Working {number(working, "RUNNING", "ASSIGNED")}</h2>
        <Group title="Running" tasks={of("RUNNING")} more={more("RUNNING")} to={list("RUNNING")} {...group} />
        <Group title="Assigned" tasks={of("ASSIGNED")} more={more("ASSIGNED")} to={list("ASSIGNED")} {...group} />
        {!working && <p class="none">No agent works on a task.</p>}
      </section>
      <section class="col" aria-label="Ended">
        <h2>Ended <small>latest first</small></h2>
        <Group title="Failed" tasks={of("FAILED")} more={more("FAILED")} to={list("FAILED")} {...group} />
        <Group title="Completed" tasks={of("COMPLETED")} more={more("COMPLETED")} to={list("COMPLETED")} {...group} />
        <Group title="Cancelled" tasks={cancelled} {...group} />
        {!of("FAILED").length && !of("COMPLETED").length && !cancelled.length && <p class="none">Nothing has ended yet.</p>}
      </section>
    </div>
  );
}
