import { useState } from "preact/hooks";
import { usePages } from "../../app/pages";
import { FieldsDialog, type Field, type Values } from "../../ui/fields";
import {
  Ago, api, Bar, can, Choose, Code, confirm, Copy, Empty, Facts, Failed, Filtered, Filters, fmt, Glyph, go, href, List, Loading, Outputs, PageHead, Pane,
  Problem, Search, seg, setQuery, Status, Time, toast, Toggle, toneOf, useKeys, useResource, wordOf,
} from "../../ui";
import "../../ui/detail.css";
import "./objectives.css";
import type { ObjectiveItem } from "../../app/api.gen";

type Objective = ObjectiveItem;

const events = { kinds: ["objective."] };
const clear = (): void => setQuery({ q: null, status: null, minPriority: null });

const fieldsOf = (o?: Objective): Field[] => [
  { name: "title", label: "Title", required: true, maxLength: 255, value: o?.title },
  { name: "description", label: "Description", kind: "area", maxLength: 8000, value: o?.description },
  { name: "doneCriterion", label: "How one sees that it is reached", kind: "area", maxLength: 2000, value: o?.doneCriterion },
  { name: "priority", label: "Priority", kind: "number", required: true, min: 1, max: 10, value: o?.priority ?? 5, hint: "10 comes first" },
];

/** Progress shows how much of a plan is done. */
const Progress = ({ o }: { o: Objective }) =>
  o.stepsTotal ? <span class="plan"><Bar share={(o.stepsDone ?? 0) / o.stepsTotal} tone={o.status === "active" ? "active" : undefined} label={`${o.stepsDone} of ${o.stepsTotal} steps`} />
    <small class="muted num">{o.stepsDone} of {o.stepsTotal}</small></span>
    : <small class="muted">{o.planVersion ? "no steps" : "not planned yet"}</small>;

export default function Objectives({ id, query }: { id?: string; query: URLSearchParams }) {
  const [creating, setCreating] = useState(false);
  const params = { q: query.get("q"), status: query.get("status"), minPriority: query.get("minPriority") };
  const pages = usePages<Objective>("/objectives", { ...params, limit: 100 }, (o) => o.id, events);
  useKeys({ c: () => { if (can("create-objective")) setCreating(true); } });
  const create = async (v: Values): Promise<void> => {
    const made = await api.post<Objective>("/objectives", v);
    toast(`Created: ${made.title}. The next beat plans it.`);
    pages.reload();
    go(href("objectives/" + seg(made.id)));
  };
  const add = can("create-objective") && <button type="button" class="btn primary" onClick={() => setCreating(true)}>New objective <kbd aria-hidden="true">C</kbd></button>;
  const body = () => {
    if (pages.error && !pages.items) return <Failed error={pages.error} what="Objectives" retry={pages.reload} />;
    if (!pages.items) return <Loading lines={6} />;
    if (!pages.items.length) {
      return params.q || params.status || params.minPriority ? <Filtered what="objective" all="/objectives" clear={clear} />
        : <Empty title="No objective yet" command={`bin/lanekeeper objectives create '{"title":"Answer every question within a day"}'`} action={add}>
          An objective is what the agent works towards by itself. Set one here, or with:
        </Empty>;
    }
    return (
      <List rows={pages.items} rowKey={(o) => o.id} selected={id} label="Objectives" href={(o) => href("objectives/" + seg(o.id), query)} onEnd={pages.more}
        columns={[
          { key: "title", head: "Objective", cell: (o) => <a class="trunc lnk nb block two" href={href("objectives/" + seg(o.id), query)}>{o.title}</a> },
          { key: "status", head: "Status", cell: (o) => <Status kind="objective" value={o.status} />, width: "112px" },
          { key: "priority", head: "Priority", cell: (o) => o.priority, width: "76px", right: true, wide: true },
          { key: "plan", head: "Plan", cell: (o) => <Progress o={o} />, width: "120px" },
          { key: "next", head: "Next step", cell: (o) => <span class="trunc dim block">{o.status === "paused" ? o.statusReason || "paused" : o.nextStep ?? "–"}</span>, width: "22%", wide: true, spare: true },
          { key: "updated", head: "Last change", cell: (o) => <Ago at={o.updatedAt} />, width: "116px", right: true, wide: true, spare: true },
        ]} />
    );
  };
  return (
    <div class="page">
      <PageHead title="Objectives" acts={add}>What the agent works towards; each beat advances the most important ones.</PageHead>
      <div class={id ? "hide-p" : undefined}>
        <Filters>
          <Search placeholder="Search title and description" />
          <Choose name="status" label="Status" options={["active", "paused", "completed"].map((s) => [s, wordOf("objective", s)] as const)} />
          <Toggle name="minPriority" value="8">Priority 8 and up</Toggle>
          <span class="grow" /><Outputs path="/objectives" params={params} />
        </Filters>
      </div>
      <div class={"split" + (id ? " open" : " single")} data-wide>
        <section class="panel" aria-label="Objectives">{body()}</section>
        {id && <Detail key={id} id={id} close={() => go(href("objectives", query))} changed={pages.reload} />}
      </div>
      {creating && <FieldsDialog title="New objective" action="Set objective" fields={fieldsOf()} submit={create} onClose={() => setCreating(false)} />}
    </div>
  );
}

function Detail({ id, close, changed }: { id: string; close: () => void; changed: () => void }) {
  const path = "/objectives/" + seg(id);
  const one = useResource<Objective>(path, undefined, events);
  const [editing, setEditing] = useState<"facts" | "plan" | null>(null);
  const o = one.data;
  const act = (verb: string, said: string, body?: unknown, undo?: () => void) => async (): Promise<void> => {
    try {
      await api.post(`${path}/${verb}`, body);
      toast(said, undo);
      one.reload();
      changed();
    } catch (error) {
      toast(error instanceof Problem ? error.message : String(error));
    }
  };
  if (!o) return <Pane title="Objective" onClose={close}>{one.error ? <Failed error={one.error} what="The objective" retry={one.reload} /> : <Loading />}</Pane>;
  const resume = act("resume", `Resumed: ${o.title}`);
  const pause = async (): Promise<void> => {
    const yes = await confirm({ title: `Pause “${o.title}”?`, effect: "Beats leave it alone until it is resumed. Who works on it now stops at the next step.", action: "Pause", reason: true, optional: true, calm: true });
    if (yes) await act("pause", `Paused: ${o.title}`, yes.reason ? { reason: yes.reason } : undefined, () => void resume())();
  };
  const complete = async (): Promise<void> => {
    const yes = await confirm({ title: `Is “${o.title}” reached?`, effect: "It ends as completed. Beats work on it no more.", action: "Complete", reason: "What was reached", optional: true, calm: true });
    if (yes) await act("complete", `Completed: ${o.title}`, yes.reason ? { summary: yes.reason } : undefined)();
  };
  const remove = async (): Promise<void> => {
    const yes = await confirm({ title: `Delete “${o.title}”?`, effect: "Its plan goes with it, and who works on it stops.", action: "Delete objective", typed: o.title.length <= 40 ? o.title : "delete" });
    if (!yes) return;
    try {
      await api.delete(path);
      toast(`Deleted: ${o.title}`);
      changed();
      close();
    } catch (error) {
      toast(error instanceof Problem ? error.message : String(error));
    }
  };
  const patch = async (v: Values): Promise<void> => {
    await api.patch(path, { title: v.title, priority: v.priority, description: v.description ?? "", doneCriterion: v.doneCriterion ?? "" });
    toast(`Saved: ${v.title as string}`);
    one.reload();
    changed();
  };
  const replan = async (v: Values): Promise<void> => {
    const steps = (v.steps as string).split("\n").map((line) => line.trim()).filter(Boolean).map((title) => {
      const old = o.steps?.find((s) => s.title === title);
      return { title, ...(old?.skill ? { skill: old.skill, inputs: old.inputs ?? undefined } : {}), ...(old?.doneCriterion ? { doneCriterion: old.doneCriterion } : {}) };
    });
    await api.put(path + "/steps", { steps });
    toast("The plan was replaced");
    one.reload();
    changed();
  };
  const foot = o.status !== "completed" && can("patch-objective") && (
    <>
      <button type="button" class="btn" onClick={() => setEditing("facts")}>Edit</button>
      <button type="button" class="btn" onClick={() => setEditing("plan")}>Change plan</button>
      {o.status === "active" ? <button type="button" class="btn" onClick={() => void pause()}>Pause</button> : <button type="button" class="btn" onClick={() => void resume()}>Resume</button>}
      <button type="button" class="btn" onClick={() => void complete()}>Complete</button>
    </>
  );
  return (
    <Pane title={o.title} status={<Status kind="objective" value={o.status} />} onClose={close}
      foot={<>{foot}{can("delete-objective") && <button type="button" class="btn danger" onClick={() => void remove()}>Delete</button>}</>}>
      {o.statusReason && <section class="why"><h3 class="eyebrow">Why it is {o.status}</h3><q>{o.statusReason}</q></section>}
      {o.description && <><h3 class="sec">Description</h3><p class="prose">{o.description}</p></>}
      <h3 class="sec">Plan{o.planVersion > 1 && <span class="muted">version {o.planVersion}</span>}</h3>
      {o.steps?.length ? (
        <ol class="steps-plan">
          {o.steps.map((s) => (
            <li key={s.number} aria-current={s.status === "pending" && s.number === o.steps!.find((x) => x.status === "pending")?.number ? "step" : undefined}>
              <Glyph tone={toneOf("plan", s.status)} />
              <span><b class="nb">{s.title}</b><span class="sr"> {wordOf("plan", s.status)}</span>
                <small class="muted">{[s.skill, s.attempts > 1 && fmt.plural(s.attempts, "attempt"), s.result].filter(Boolean).join(" · ")}</small></span>
              <span class="muted num">{s.endedAt && <Time at={s.endedAt} />}</span>
            </li>
          ))}
        </ol>
      ) : <p class="prose muted">{o.status === "active" ? "The next beat plans it." : "There is no plan."}</p>}
      {o.summary && <><h3 class="sec">Summary</h3><p class="prose">{o.summary}</p></>}
      <Facts of={[
        ["Reached when", o.doneCriterion || null],
        ["Priority", o.priority],
        ["Created", <><Time at={o.createdAt} /> <span class="muted">by {o.createdBy}</span></>],
        ["Advanced", <Ago at={o.updatedAt} />],
        ["Completed", o.completedAt ? <Time at={o.completedAt} /> : null],
        ["Trust", o.outside ? <span class="st warn"><Glyph tone="warn" />Written after text from outside was read</span> : null],
        ["Id", <span class="row"><span class="mono trunc">{o.id}</span><Copy text={o.id} small /></span>],
      ]} />
      {o.steps?.some((s) => s.inputs && Object.keys(s.inputs).length) && (
        <details><summary class="sec">Inputs of the steps</summary><Code value={o.steps.map((s) => ({ step: s.number, skill: s.skill, inputs: s.inputs }))} /></details>
      )}
      {editing === "facts" && <FieldsDialog title={`Edit “${o.title}”`} action="Save" fields={fieldsOf(o)} submit={patch} onClose={() => setEditing(null)} />}
      {editing === "plan" && (
        <FieldsDialog title="Change the plan" lead="One step a line. Who works on the old plan stops; a step whose title stays keeps its skill and inputs." action="Replace plan"
          fields={[{ name: "steps", label: "Steps", kind: "area", required: true, rows: 10, value: o.steps?.map((s) => s.title).join("\n"), at: "body.steps" }]} submit={replan} onClose={() => setEditing(null)} />
      )}
    </Pane>
  );
}
