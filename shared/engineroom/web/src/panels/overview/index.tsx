import "./overview.css";
import { useEffect, useMemo } from "preact/hooks";
import { useResource } from "../../app/resource";
import { useWhole } from "../../app/whole";
import { overview, overviewFailed, refresh, whereOf } from "../../app/overview";
import { api, can, Problem, serverNow } from "../../app/api";
import { href } from "../../app/base";
import { fmt, second } from "../../app/fmt";
import type { Activity, Overview, Page } from "../../app/types";
import { Activities } from "../../ui/activity";
import { Glyph } from "../../ui/icon";
import { Ago, Bar, Countdown, Said, Since, Tag, TraceLink } from "../../ui/marks";
import { Panel } from "../../ui/parts";
import { Clear, Empty, Failed, Loading, Shown } from "../../ui/states";
import { type Mark, Strip } from "../../ui/strip";
import { toneOf, type Tone } from "../../ui/status";
import { toast } from "../../ui/toast";
import type { PanelProps } from "../props";
import type { TraceRow } from "../traces/types";
import { Burn } from "./burn";
import type { TaskItem } from "../../app/api.gen";

const phases = ["heal", "plan", "automate", "advance", "reflect", "remember"];
const surfaces = ["heartbeat", "operate", "chat", "webhook", "worker"]; // a cycle of the coordinator is no run
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const pageOf: Record<string, string> = { objective: "objectives", automation: "automations", task: "tasks", execution: "traces", thread: "threads", lane: "lanes" };
const objectLink = (o: Overview): string | null => {
  const object = o.object;
  if (!object) return null;
  if (object.kind === "execution") {
    const run = o.running.find((r) => r.executionId === object.id);
    return run ? "traces/" + run.traceId : null;
  }
  return pageOf[object.kind] ? pageOf[object.kind] + "/" + encodeURIComponent(object.id) : null;
};

/** Sentence is the sentence, in which the object is a link. */
function Sentence({ o }: { o: Overview }) {
  const title = o.object?.title;
  const to = objectLink(o);
  const at = title ? o.sentence.indexOf(title) : -1;
  return (
    <h1 class="sentence">
      {at >= 0 && to && title ? <>{o.sentence.slice(0, at)}<a href={href(to)}>{title}</a>{o.sentence.slice(at + title.length)}</> : o.sentence}
    </h1>
  );
}

function Now({ o }: { o: Overview }) {
  void second.value;
  const run = o.running.find((r) => r.executionId === o.object?.id) ?? o.running.find((r) => r.traceId === o.beat.traceId) ?? o.running[0];
  const tone: Tone = o.state === "working" ? "active" : o.state === "idle" ? "queued" : "failed";
  return (
    <div class="now-l">
      <p class="eyebrow"><Glyph tone={tone} />{o.state === "working" ? "Now" : o.state === "idle" ? "Idle" : o.state === "stopped" ? "Stopped" : "Not working"}
        {run && <><Tag>{run.surface}</Tag><TraceLink id={run.traceId} keep={20} /></>}
        {!run && o.beat.traceId && <><span>last beat</span><TraceLink id={o.beat.traceId} keep={20} /></>}
      </p>
      <Sentence o={o} />
      <p class="facts">
        {run?.step ? <span>Step {run.step}</span> : null}
        {run?.doing && <span class="trunc">{run.doing}</span>}
        {run && <span>for&nbsp;<Since at={run.startedAt} /></span>}
        {run && run.tokens > 0 && <span class="num">{fmt.tokens(run.tokens)} tokens{run.microUsd > 0 && ` · ${fmt.money(run.microUsd)}`} so far</span>}
        {!run && o.beat.lastAt && <span>The last beat ended&nbsp;<Ago at={o.beat.lastAt} /></span>}
        {!run && o.beat.nextAt && o.state !== "stopped" && <span>the next comes in&nbsp;<Countdown to={o.beat.nextAt} over="a moment" /></span>}
      </p>
      <ol class="beat" aria-label={o.beat.running ? "Phases of this beat" : "Phases of the last beat"}>
        {phases.map((phase) => {
          const done = o.beat.done.find((d) => d.phase === phase);
          const on = o.beat.running && o.beat.phase === phase;
          return (
            <li key={phase} class={on ? "on" : done ? "ok" : "todo"}><i />
              <b>{<Glyph tone={on ? "active" : done ? "done" : "queued"} />}{capital(phase)}<span class="sr">: {on ? "runs" : done ? "done" : o.beat.running ? "not yet" : "did not run"}</span></b>
              <small class="trunc">{done ? [done.text, done.durationMs ? fmt.duration(done.durationMs) : ""].filter(Boolean).join(" · ") : on ? "runs" : o.beat.running ? "not yet" : o.beat.done.length ? "skipped" : "–"}</small>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

const linkOf = (link: string): string => link.replace(/^budgets/, "spend").replace(/^coordinator/, "agents");

const Verdict = ({ o }: { o: Overview }) => (
  <div class="now-r verdict">
    <h2><Glyph tone={o.verdict.tone} />{o.verdict.text}</h2>
    <ul>
      {o.verdict.lines.map((line) => {
        return (
          <li key={line.key}><Glyph tone={line.tone} /><span class="sr">{line.tone === "done" ? "" : line.tone === "warn" ? "Warning: " : "Failed: "}</span>
            {line.link ? <a class="lnk trunc" href={href(linkOf(line.link))} title={line.text}>{line.text}</a> : <span class="trunc first">{line.text}</span>}
            <span class="d" title={line.detail}>{line.detail}</span>
          </li>
        );
      })}
    </ul>
  </div>
);

const needPage: Record<string, string> = { approval: "approvals", heal: "skills", budget: "spend", lane: "lanes", agent: "agents", stop: "settings", failure: "failures" };
const mostNeeds = 4;

function Needs({ o }: { o: Overview }) {
  const retry = async (id: string): Promise<void> => {
    try {
      await api.post(`/agent-tasks/${id}/retry`, {});
      toast("Task queued again");
      refresh();
    } catch (error) {
      toast(error instanceof Problem ? error.message : "That did not work");
    }
  };
  return (
    <Panel title={<>Needs {can("approve-approval") ? "you" : "a person"}{o.needs.length > 0 && <span class={"chip " + (o.needs.some((n) => n.tone === "person") ? "person" : "")}>{o.needs.length}</span>}</>} more={["Approvals", "approvals"]}>
      {o.needs.length === 0 ? <Clear title="Nothing needs you" /> : (
        <ul class="need">
          {o.needs.slice(0, mostNeeds).map((n) => {
            const failure = n.kind === "failure" ? o.failures.items.find((f) => f.id === n.id) : undefined;
            const failed = failure?.kind;
            const to = n.kind === "approval" ? "approvals/" + n.id : n.kind === "lane" ? "lanes/" + encodeURIComponent(n.id) : n.kind === "task" ? "tasks/" + n.id : failure ? whereOf(failure) : needPage[n.kind] ?? "activity";
            return (
              <li key={n.kind + n.id}><Glyph tone={n.tone} /><div><a class="trunc lnk t" href={href(to)} title={n.title}>{n.title}</a><small class="why-at"><span class="trunc">{fmt.words(n.why)}</span><span class="num">&nbsp;· <Ago at={n.at} /></span></small></div>
                {failed === "task" && can("retry-agent-task")
                  ? <button type="button" class="btn sm" onClick={() => void retry(n.id)}>Retry<span class="sr"> {n.title}</span></button>
                  : <a class="btn sm" href={href(to)}>{n.kind === "approval" ? "Review" : "Open"}<span class="sr"> {n.title}</span></a>}
              </li>
            );
          })}
          {o.needs.length > mostNeeds && <li><span /><a class="lnk muted" href={href(o.needs[mostNeeds]!.kind === "approval" ? "approvals" : "failures")}>and {fmt.count(o.needs.length - mostNeeds)} more</a></li>}
        </ul>
      )}
    </Panel>
  );
}

function Lanes({ o }: { o: Overview }) {
  void second.value;
  return (
    <Panel title="Lanes held" note={String(o.lanes.length)} more={["All", "lanes"]}>
      {o.lanes.length === 0 ? <Empty title="No lane is held">A lane is a lock: one holder at a time works on one thing.</Empty> : (
        <ul class="mini">
          {o.lanes.slice(0, 4).map((l) => {
            const left = +new Date(l.expiresAt) - serverNow();
            const wanted = l.wantedAt ? serverNow() - +new Date(l.wantedAt) : 0;
            return (
              <li key={l.lane}>
                <div class="row"><a class="trunc lnk nb" href={href("lanes/" + encodeURIComponent(l.lane))} title={l.lane}>{l.label || fmt.short(l.lane, 40)}</a>
                  <small class="num">{wanted > 2000 ? <><Said tone="warn">wanted for {fmt.rough(wanted)}</Said> · </> : l.wantedAt ? "wanted · " : ""}<Countdown to={l.expiresAt} over="ends now" /> left</small>
                </div>
                <small class="trunc sub">{[l.surface ?? l.holder, l.doing].filter(Boolean).join(" · ")}</small>
                <Bar share={left / Math.max(1, +new Date(l.expiresAt) - +new Date(l.acquiredAt))} tone={wanted > 2000 ? "warn" : undefined} />
              </li>
            );
          })}
        </ul>
      )}
    </Panel>
  );
}

type Task = TaskItem;

// shown are the reasons that have room beside the tasks at work; rest is how many tasks wait for others.
const shown = (o: Overview, beside: number) => o.tasks.byReason.slice(0, Math.max(1, 4 - beside));
const rest = (o: Overview, beside: number): number => o.tasks.waiting - shown(o, beside).reduce((n, r) => n + r.count, 0);

function Tasks({ o }: { o: Overview }) {
  const running = useResource<Page<Task>>("/agent-tasks", { status: "RUNNING", limit: 4 }, { kinds: ["task."] });
  const waiting = fmt.count(o.tasks.waiting) + (o.tasks.waitingMore ? "+" : "");
  return (
    <Panel title="Tasks at work" note={`${o.tasks.working} at work, ${waiting} waiting`} more={["Board", "tasks"]}>
      <Shown of={running} what="Tasks" lines={3}>{(data) => data.items.length === 0 && o.tasks.waiting === 0
        ? <Empty title="No task is at work" command={'bin/lanekeeper tasks create "Check broken links"'}>A task is durable work for an agent.</Empty>
        : (
          <ul class="mini">
            {data.items.map((t) => (
              <li key={t.id}>
                <div class="row"><a class="trunc lnk nb" href={href("tasks/" + t.id)}>{t.title}</a><small class="num">{t.progressPercent} %</small></div>
                <small class="trunc sub">{[t.currentStep].filter(Boolean).join(" · ")}{t.startedAt && <>{t.currentStep ? " · " : ""}<Since at={t.startedAt} /></>}</small>
                <Bar share={t.progressPercent / 100} tone="active" />
              </li>
            ))}
            {shown(o, data.items.length).map((r) => (
              <li key={r.code}><div class="row"><a class="trunc lnk" href={href("tasks", { reasonCode: r.code })}><Glyph tone="queued" /> {capital(r.code.replaceAll("_", " "))}</a><small class="num">{fmt.plural(r.count, "task")}</small></div></li>
            ))}
            {rest(o, data.items.length) > 0 && <li><a class="lnk muted" href={href("tasks", { status: "PENDING" })}>and {o.tasks.waitingMore && "at least "}{fmt.count(rest(o, data.items.length))} more {rest(o, data.items.length) === 1 ? "waits" : "wait"}</a></li>}
          </ul>
        )}
      </Shown>
    </Panel>
  );
}

const last = 3; // hours on the strip
const mostRuns = 4000; // on the strip

function Runs({ o }: { o: Overview }) {
  const since = new Date(Math.floor((serverNow() - last * 3_600_000) / 600_000) * 600_000).toISOString();
  const traces = useWhole<Page<TraceRow>>("/traces", { since }, { kinds: ["execution."] }, mostRuns);
  const runs = traces.data?.items;
  const rows = useMemo(() => surfaces.map((name) => ({
    name,
    marks: (runs ?? []).filter((t) => t.surface === name).map((t): Mark => {
      const tone = toneOf("execution", t.status);
      return {
        start: +new Date(t.startedAt), end: t.endedAt ? +new Date(t.endedAt) : tone === "active" || tone === "person" ? null : +new Date(t.startedAt) + 1000,
        tone, to: "traces/" + t.traceId,
        title: `${name} ${fmt.clock(t.startedAt)} · ${t.status}${t.title ? " · " + t.title : ""}`,
      };
    }),
  })), [runs]);
  const failed = rows.reduce((n, r) => n + r.marks.filter((m) => m.tone === "failed").length, 0);
  const next = o.beat.nextAt ? { row: 0, at: +new Date(o.beat.nextAt), title: "next beat " + fmt.clock(o.beat.nextAt, false) } : null;
  return (
    <Panel title={`Last ${last} hours`} note={<span class="wide">{traces.data?.nextCursor ? `the last ${fmt.count(traces.data.items.length)} runs` : "each mark is one run"}; red failed, violet waits for a person</span>} more={["All traces", "traces"]}>
      <Shown of={traces} what="The runs">{() => <Strip rows={rows} span={last * 3_600_000} label={`Runs of the last ${last} hours by surface: ${fmt.plural(runs?.length ?? 0, "run")}, ${failed} failed`} due={next} />}</Shown>
    </Panel>
  );
}

function Latest() {
  const latest = useResource<Page<Activity>>("/activity", { limit: 8 }, { kinds: ["activity"] });
  return (
    <Panel title="Latest activity" more={["Live feed", "activity"]}>
      <Shown of={latest} what="Activity">{(data) => data.items.length ? <Activities rows={data.items} keys={false} /> : <Empty title="Nothing has happened yet">The first beat writes here what it does.</Empty>}</Shown>
    </Panel>
  );
}

const often = 10_000; // milliseconds between two reads: no event tells of lanes that other programs hold

/** OverviewPanel answers what the agent does right now, whether it works, and what needs a person. */
export default function OverviewPanel(_: PanelProps) {
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) refresh(); }, often);
    return () => clearInterval(timer);
  }, []);
  const o = overview.value;
  const failed = overviewFailed.value;
  if (!o) {
    return <div class="page"><header><h1>Overview</h1></header><section class="panel">{failed ? <Failed error={failed} retry={refresh} what="The overview" /> : <Loading lines={6} />}</section><Latest /></div>;
  }
  return (
    <div class="page grid overview">
      <section class="panel now" aria-label="Now"><Now o={o} /><Verdict o={o} /></section>
      <div class="grid ov"><Runs o={o} /><Needs o={o} /></div>
      <div class="grid ov3"><Lanes o={o} /><Tasks o={o} /><Burn o={o} /></div>
      <Latest />
    </div>
  );
}
