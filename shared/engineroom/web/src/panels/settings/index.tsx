import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { askBefore } from "../../app/router";
import { api, can, confirm, fmt, me, PageHead, Panel, Problem, seg, Shown, toast, useResource } from "../../ui";
import { groups, labels } from "./labels";
import "./settings.css";
import type { WorkspaceItem } from "../../app/api.gen";

type Workspace = WorkspaceItem;

// Settings shows what bounds the agents of the workspace, and changes it.
export default function Settings() {
  const id = me.value?.workspaceId;
  const workspace = useResource<Workspace>(id ? `/workspaces/${seg(id)}` : null);
  return (
    <div class="page grid">
      <PageHead title="Settings">What bounds the agents of this workspace. A change counts from the next run on, and is recorded under your name.</PageHead>
      <Shown of={workspace} what="The settings">{(w) => <Form key={w.id} workspace={w} reload={workspace.reload} />}</Shown>
    </div>
  );
}

function Form({ workspace: w, reload }: { workspace: Workspace; reload: () => void }) {
  const may = can("patch-workspace");
  const now = numbersOf(w);
  const [name, setName] = useState(w.name);
  const [values, setValues] = useState<Record<string, string>>(now);
  const [wrong, setWrong] = useState<Record<string, string>>({});
  // What is typed stays when the settings are read anew, also where somebody else has changed others.
  const read = useRef({ name: w.name, now });
  useLayoutEffect(() => {
    const was = read.current;
    read.current = { name: w.name, now };
    setName((typed) => (typed === was.name ? w.name : typed));
    setValues((typed) => ({ ...typed, ...Object.fromEntries(Object.keys(now).filter((k) => (typed[k] ?? was.now[k]) === was.now[k]).map((k) => [k, now[k]!])) }));
  }, [w.name, JSON.stringify(now)]);
  const saved = read.current;
  const changed = Object.keys(now).filter((k) => values[k] !== saved.now[k]);
  const unsaved = changed.length + Number(name !== saved.name);
  useLayoutEffect(() => unsaved ? askBefore(async () => (await confirm({
    title: "Leave the settings?", effect: `${fmt.plural(unsaved, "change")} ${unsaved === 1 ? "is" : "are"} not saved.`, action: "Leave", stay: "Stay",
  })) !== null) : undefined, [unsaved]);
  const save = async (e: Event) => {
    e.preventDefault();
    try {
      const answer = await api.patch<Workspace>(`/workspaces/${seg(w.id)}`, {
        ...(name !== saved.name ? { name } : {}),
        ...(changed.length ? { settings: Object.fromEntries(changed.map((k) => [k, values[k] === "" ? null : unitOf(k) > 1 ? Math.round(Number(values[k]) * unitOf(k)) : Number(values[k])])) } : {}),
      });
      // The answer may differ from what was typed: a field that was emptied has its default.
      read.current = { name: answer.name, now: numbersOf(answer) };
      setName(answer.name);
      setValues(read.current.now);
      setWrong({});
      toast("The settings are saved");
      reload();
    } catch (e) {
      setWrong(fieldsOf(e));
      toast(e instanceof Error ? e.message : String(e));
    }
  };
  const known = groups.flatMap(([, keys]) => keys);
  const others = Object.keys(now).filter((k) => !known.includes(k));
  return (
    <form onSubmit={(e) => void save(e)} class="grid settings">
      <Panel title="Workspace">
        <div class="fields"><label class="field"><span>Name</span><input type="text" value={name} disabled={!may} maxLength={255} required onInput={(e) => setName(e.currentTarget.value)} /><small>{w.slug}</small></label></div>
      </Panel>
      {[...groups, ["Others", others] as const].filter(([, keys]) => keys.some((k) => k in now)).map(([title, keys]) => (
        <Panel key={title} title={title}>
          <div class="fields">
            {keys.filter((k) => k in now).map((k) => (
              <label key={k} class={values[k] !== saved.now[k] ? "field changed" : "field"}>
                <span>{labels[k] ?? k}</span>
                <input type="number" step={unitOf(k) > 1 ? "any" : undefined} name={k} value={values[k]} disabled={!may} placeholder="default" onInput={(e) => setValues({ ...values, [k]: e.currentTarget.value })} />
                {values[k] !== saved.now[k] && <small>was {saved.now[k]}</small>}
                {wrong[k] && <small class="err" role="alert">{wrong[k]}</small>}
              </label>
            ))}
          </div>
        </Panel>
      ))}
      {may && unsaved > 0 && <div class="save"><button class="btn primary">Save {fmt.plural(unsaved, "change")}</button>
        <button type="button" class="btn" onClick={() => { setName(saved.name); setValues(saved.now); setWrong({}); }}>Keep as it is</button></div>}
      {can("delete-workspace") && <Panel title="Delete"><div class="fields danger"><p class="dim">The workspace, its agents, tasks, memories and traces are deleted for good.</p><button type="button" class="btn danger" onClick={() => void remove(w)}>Delete the workspace</button></div></Panel>}
    </form>
  );
}

// unitOf is how much of what the API counts is one of what people read: money is in millionths of a dollar.
const unitOf = (name: string): number => (name.endsWith("MicroUsd") ? 1_000_000 : 1);

function numbersOf(w: Workspace): Record<string, string> {
  return Object.fromEntries(Object.entries(w.settings).filter(([, v]) => typeof v === "number").map(([k, v]) => [k, String(Number(v) / unitOf(k))]));
}

// fieldsOf reads a refusal's fields: "settings.stepsPerRun must be 1 to 1000".
function fieldsOf(e: unknown): Record<string, string> {
  const errors = e instanceof Problem && Array.isArray(e.body.errors) ? (e.body.errors as { location?: string; message?: string }[]) : [];
  return Object.fromEntries(errors.map((f) => [(f.location ?? "").split(".").pop()!, f.message ?? ""]));
}

async function remove(w: Workspace) {
  if (!(await confirm({ title: `Delete ${w.name}?`, effect: "Every run stops, and everything in it is deleted for good.", action: "Delete the workspace", typed: w.name }))) return;
  try {
    await api.delete(`/workspaces/${seg(w.id)}`);
    location.assign("./overview");
  } catch (e) {
    toast(e instanceof Error ? e.message : String(e));
  }
}
