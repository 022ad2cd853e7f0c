import { useState } from "preact/hooks";
import { usePages } from "../../app/pages";
import { FieldsDialog, type Field, type Values } from "../../ui/fields";
import {
  Ago, api, can, Choose, Code, confirm, Copy, Countdown, Empty, Facts, Failed, Filtered, Filters, fmt, Glyph, go, href, List, Loading, Outputs, PageHead, Pane,
  Problem, Search, seg, setQuery, Status, Time, toast, TraceLink, useKeys, useResource, type Page,
} from "../../ui";
import "../../ui/detail.css";
import type { AutomationItem } from "../../app/api.gen";

type Automation = AutomationItem;

const kinds = [
  "approval.approved", "approval.expired", "approval.rejected", "approval.requested", "execution.failed", "memory.saved", "objective.completed", "objective.created",
  "objective.paused", "objective.resumed", "skill.disabled", "skill.enabled",
];
const events = { kinds: ["automation.", "activity", "skill.", "heal."], apart: 10_000 };

const statusOf = (a: Automation): string => (a.enabled ? "enabled" : a.disabledBy === "self_healing" ? "self_healing" : "disabled");

const scheduleOf = (a: Automation): string =>
  a.schedule.event ? "on " + a.schedule.event : `${a.schedule.cron}${a.schedule.timeZone && a.schedule.timeZone !== "UTC" ? " · " + a.schedule.timeZone : ""}`;

const fieldsOf = (a: Automation | undefined, skills: readonly string[]): Field[] => [
  { name: "name", label: "Name", required: true, maxLength: 200, value: a?.name },
  { name: "skill", label: "Skill", required: true, maxLength: 64, value: a?.skill, suggestions: skills },
  { name: "input", label: "Input", kind: "json", value: a?.input ?? {}, hint: "What fits the skill's parameters" },
  { name: "cron", label: "Times", maxLength: 200, value: a?.schedule.cron, at: "body.schedule.cron", hint: "Five fields as of cron, or @hourly, @daily, @weekly, @monthly, @yearly. Leave it empty to wait for an event" },
  { name: "timeZone", label: "Time zone", maxLength: 64, value: a?.schedule.timeZone ?? "", at: "body.schedule.timeZone", hint: "Such as Europe/Berlin; UTC when left out" },
  { name: "event", label: "Event", kind: "select", value: a?.schedule.event ?? "", at: "body.schedule.event", options: [["", "None: at times"], ...kinds.map((k) => [k, k] as const)] },
];

// bodyOf is what the fields mean: an event takes the place of the times.
const bodyOf = (v: Values): Values => ({
  name: v.name, skill: v.skill, input: v.input ?? {},
  schedule: v.event ? { event: v.event } : { cron: v.cron, ...(v.timeZone ? { timeZone: v.timeZone } : {}) },
});

export default function Automations({ id, query }: { id?: string; query: URLSearchParams }) {
  const [creating, setCreating] = useState(false);
  const q = query.get("q")?.toLowerCase();
  const params = { enabled: query.get("enabled"), skill: query.get("skill"), event: query.get("event") };
  const pages = usePages<Automation>("/automations", { ...params, limit: 200 }, (a) => a.id, events);
  const skills = useResource<Page<{ name: string }>>("/skills", { limit: 200 }, { kinds: ["skill."] });
  const names = (skills.data?.items ?? []).map((s) => s.name);
  useKeys({ c: () => { if (can("create-automation")) setCreating(true); } });
  const rows = q ? pages.items?.filter((a) => `${a.name} ${a.skill} ${scheduleOf(a)}`.toLowerCase().includes(q)) : pages.items;
  const create = async (v: Values): Promise<void> => {
    const made = await api.post<Automation>("/automations", bodyOf(v));
    toast(`Created: ${made.name}`);
    pages.reload();
    go(href("automations/" + seg(made.id)));
  };
  const add = can("create-automation") && <button type="button" class="btn primary" onClick={() => setCreating(true)}>New automation <kbd aria-hidden="true">C</kbd></button>;
  const body = () => {
    if (pages.error && !pages.items) return <Failed error={pages.error} what="Automations" retry={pages.reload} />;
    if (!rows) return <Loading lines={6} />;
    if (!rows.length) {
      return q || params.enabled || params.skill || params.event
        ? <Filtered what="automation" count={q ? pages.items?.length : null} all="/automations" clear={() => setQuery({ q: null, enabled: null, skill: null, event: null })} />
        : <Empty title="No automation yet" command={`bin/lanekeeper automations create '{"name":"Every morning","skill":"query_activity","schedule":{"cron":"0 9 * * *"}}'`} action={add}>An automation runs a skill by itself, at times or when something happens.</Empty>;
    }
    return (
      <List rows={rows} rowKey={(a) => a.id} selected={id} label="Automations" href={(a) => href("automations/" + seg(a.id), query)} onEnd={pages.more}
        columns={[
          { key: "name", head: "Automation", cell: (a) => <a class="trunc lnk nb block two" href={href("automations/" + seg(a.id), query)}>{a.name}</a> },
          { key: "status", head: "Status", cell: (a) => <Status kind="automation" value={statusOf(a)} />, width: "176px", phone: "116px" },
          { key: "skill", head: "Skill", cell: (a) => <code class="trunc block">{a.skill}</code>, width: "16%", wide: true },
          { key: "schedule", head: "Schedule", cell: (a) => <span class="trunc block">{scheduleOf(a)}</span>, width: "18%", wide: true, spare: true },
          { key: "next", head: "Next", cell: (a) => (a.nextRunAt ? <Time at={a.nextRunAt} /> : "–"), width: "136px", wide: true },
          { key: "last", head: "Last", cell: (a) => (a.lastStatus ? <Status kind="activity" value={a.lastStatus} /> : <span class="muted">–</span>), width: "104px", wide: true, spare: true },
        ]} />
    );
  };
  return (
    <div class="page">
      <PageHead title="Automations" acts={add}>Skills that run by themselves, at times or when something happens.</PageHead>
      <div class={id ? "hide-p" : undefined}>
        <Filters>
          <Search placeholder="Search name and skill" />
          <Choose name="enabled" label="Status" options={[["true", "Enabled"], ["false", "Disabled"]]} />
          {(params.skill || names.length > 0) && <Choose name="skill" label="Skill" options={names.map((n) => [n, n] as const)} />}
          <Choose name="event" label="Event" options={kinds.map((k) => [k, k] as const)} />
          <span class="grow" /><Outputs path="/automations" params={params} />
        </Filters>
      </div>
      <div class={"split" + (id ? " open" : " single")} data-wide>
        <section class="panel" aria-label="Automations">{body()}</section>
        {id && <Detail key={id} id={id} skills={names} close={() => go(href("automations", query))} changed={pages.reload} />}
      </div>
      {creating && <FieldsDialog title="New automation" action="Create automation" fields={fieldsOf(undefined, names)} submit={create} onClose={() => setCreating(false)} />}
    </div>
  );
}

function Detail({ id, skills, close, changed }: { id: string; skills: readonly string[]; close: () => void; changed: () => void }) {
  const path = "/automations/" + seg(id);
  const one = useResource<Automation>(path, undefined, events);
  const [editing, setEditing] = useState(false);
  const [running, setRunning] = useState(false);
  const a = one.data;
  if (!a) return <Pane title="Automation" onClose={close}>{one.error ? <Failed error={one.error} what="The automation" retry={one.reload} /> : <Loading />}</Pane>;
  const done = (said: string, undo?: () => void): void => {
    toast(said, undo);
    one.reload();
    changed();
  };
  const tried = async (action: () => Promise<void>): Promise<void> => {
    try {
      await action();
    } catch (error) {
      toast(error instanceof Problem ? error.message : String(error));
    }
  };
  const enable = (): Promise<void> => tried(async () => {
    await api.post(path + "/enable");
    done(`Enabled: ${a.name}`);
  });
  const disable = async (): Promise<void> => {
    const yes = await confirm({ title: `Disable “${a.name}”?`, effect: "It does not run by itself any more. Self-healing does not enable what a person disabled.", action: "Disable", reason: true, optional: true });
    if (yes) await tried(async () => {
      await api.post(path + "/disable", yes.reason ? { reason: yes.reason } : undefined);
      done(`Disabled: ${a.name}`, () => void enable());
    });
  };
  const run = async (): Promise<void> => {
    setRunning(true);
    await tried(async () => {
      const out = await api.post<{ status: string; error?: string; traceId: string }>(path + "/run");
      done(out.status === "succeeded" ? `Ran: ${a.name}` : `${a.name} ${out.status === "uncertain" ? "may have had its effect" : "failed"}: ${out.error ?? "nobody knows why"}`);
    });
    setRunning(false);
  };
  const remove = async (): Promise<void> => {
    const yes = await confirm({ title: `Delete “${a.name}”?`, effect: "It does not run any more. What it has done stays in the activity.", action: "Delete automation" });
    if (yes) await tried(async () => {
      await api.delete(path);
      toast(`Deleted: ${a.name}`);
      changed();
      close();
    });
  };
  const patch = async (v: Values): Promise<void> => {
    await api.patch(path, bodyOf(v));
    done(`Saved: ${v.name as string}`);
  };
  return (
    <Pane title={a.name} status={<Status kind="automation" value={statusOf(a)} />} onClose={close} foot={can("patch-automation") && (
      <>
        {can("run-automation") && <button type="button" class="btn" disabled={running} aria-busy={running} onClick={() => void run()}>{running ? "It runs…" : "Run now"}</button>}
        <button type="button" class="btn" onClick={() => setEditing(true)}>Edit</button>
        {a.enabled ? <button type="button" class="btn" onClick={() => void disable()}>Disable</button> : <button type="button" class="btn" onClick={() => void enable()}>Enable</button>}
        <button type="button" class="btn danger" onClick={() => void remove()}>Delete</button>
      </>
    )}>
      <section class="why">
        <h3 class="eyebrow">{a.enabled ? "Next" : "Why it does not run"}</h3>
        <q>{!a.enabled ? (a.disabledReason ? `${a.disabledReason.replace(/^./, (c) => c.toUpperCase())}.` : "It is disabled.")
          : a.nextRunAt ? <>It runs in <Countdown to={a.nextRunAt} over="a moment" />.</> : `It waits for ${a.schedule.event ?? "its event"}.`}</q>
      </section>
      <Facts of={[
        ["Skill", <a class="link" href={href("skills/" + seg(a.skill))}><code>{a.skill}</code></a>],
        ["Schedule", scheduleOf(a)],
        ["Next", a.nextRunAt ? <Time at={a.nextRunAt} /> : null],
        ["Last run", a.lastRunAt ? <><Time at={a.lastRunAt} /> {a.lastStatus && <Status kind="activity" value={a.lastStatus} />}</> : "never"],
        ["Last trace", a.lastTraceId ? <TraceLink id={a.lastTraceId} /> : null],
        ["Disabled", a.disabledAt ? <><Ago at={a.disabledAt} /> <span class="muted">by {a.disabledBy === "self_healing" ? "self-healing" : "a person"}</span></> : null],
        ["Created", <><Time at={a.createdAt} /> <span class="muted">by {a.createdBy}</span></>],
        ["Trust", a.outside ? <span class="st warn"><Glyph tone="warn" />Made after text from outside was read</span> : null],
        ["Runs", <a class="link" href={href("activity", { skill: a.skill })}>Activity of {a.skill}</a>],
        ["Id", <span class="row"><span class="mono trunc">{fmt.short(a.id, 36)}</span><Copy text={a.id} small /></span>],
      ]} />
      <h3 class="sec">Input</h3>
      <Code value={a.input} />
      {editing && <FieldsDialog title={`Edit “${a.name}”`} action="Save" fields={fieldsOf(a, skills)} submit={patch} onClose={() => setEditing(false)} />}
    </Pane>
  );
}
