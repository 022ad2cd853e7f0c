import { can } from "../../app/api";
import { href, seg } from "../../app/base";
import { fmt } from "../../app/fmt";
import { useResource } from "../../app/resource";
import { go, useQuery } from "../../app/router";
import type { Page } from "../../app/types";
import { Said, Status, Tag, Time } from "../../ui/marks";
import { Callout, Filters, Outputs, PageHead, Panel, Search, Toggle } from "../../ui/parts";
import { Empty, Filtered, Shown } from "../../ui/states";
import { create, disable, enable, release, stop, test, undo } from "./actions";
import { Detail } from "./detail";
import { type Automation, causes, type Heal, type Health, type Skill, statusOf, type Switch } from "./skill";
import { Spark } from "./spark";
import "./skills.css";

const kinds = ["builtin", "http", "mcp", "lambda"];
const news = ["skill.", "heal.", "kill_switch."];

// Skills shows what the agent can do, and which of it fails.
export default function Skills({ id }: { id?: string }) {
  const [query, set] = useQuery();
  const health = useResource<Page<Health>>("/skills/health", { days: 14 }, { kinds: news, every: 60_000 });
  const skills = useResource<Page<Skill>>("/skills", { limit: 200 }, { kinds: ["skill."] });
  const switches = useResource<Page<Switch>>("/kill-switches", { active: "true", limit: 50 }, { kinds: ["kill_switch."] });
  const active = useResource<Page<Heal>>("/heals", { status: "active", limit: 20 }, { kinds: ["heal.", "skill."] });
  const probing = useResource<Page<Heal>>("/heals", { status: "probing", limit: 20 }, { kinds: ["heal.", "skill."] });
  const heals = [...(active.data?.items ?? []), ...(probing.data?.items ?? [])];
  const automations = useResource<Page<Automation>>(heals.some((h) => h.automations.length) ? "/automations" : null, { limit: 200 });

  const readAll = () => [health, skills, switches, active, probing].forEach((r) => r.reload());
  const after = (done: Promise<unknown>) => void done.then(readAll);
  const approval = new Map(skills.data?.items.map((s) => [s.name, s.requiresApproval]));
  const stopped = new Map(switches.data?.items.filter((s) => s.scope === "skill").map((s) => [s.target, s]));
  const all = health.data?.items ?? [];
  const q = (query.get("q") ?? "").toLowerCase();
  const is = (name: string, value: string) => !query.get(name) || query.get(name) === value;
  const shown = all.filter((h) => is("kind", h.kind) && is("scope", h.scope) && is("effect", h.effect) && is("enabled", String(h.enabled))
    && (query.get("approval") !== "true" || approval.get(h.skill)) && h.skill.toLowerCase().includes(q)).sort(worstFirst);
  const name = skills.data?.items.find((s) => s.id === id)?.name ?? id;
  const open = all.find((h) => h.skill === name);
  const named = (ids: string[]) => ids.map((a) => automations.data?.items.find((x) => x.id === a)?.name ?? fmt.short(a));

  return (
    <div class="page">
      <PageHead title="Skills" acts={<>
        <Outputs path="/skills/health" params={{ days: 14 }} />
        {can("create-skill") && <button class="btn primary" onClick={() => after(create())}>New skill</button>}
      </>}>
        What the agent can do, and how each skill does lately.
      </PageHead>
      {switches.data?.items.filter((s) => s.scope !== "workspace").map((s) => (
        <Callout key={s.id} tone="failed" title={`${s.setBy} stopped ${s.scope} ${s.target}${s.reason ? `: ${s.reason}` : "."}`}
          acts={can("release-kill-switch") && <button class="btn" onClick={() => after(release(s))}>Release</button>}>
          No call of it is made since <Time at={s.setAt} />. It runs again when a person releases the switch.
        </Callout>
      ))}
      {heals.map((h) => (
        <Healed key={h.id} heal={h} health={all.find((x) => x.skill === h.skill)} halt={stopped.get(h.skill)} automations={named(h.automations)} after={after} />
      ))}
      <div class={id ? "split open" : undefined}>
        <div>
          <Filters>
            <Search placeholder="Search skills" />
            {kinds.map((k) => <Toggle key={k} name="kind" value={k}>{k}</Toggle>)}
            <Toggle name="effect" value="read">Reads</Toggle>
            <Toggle name="effect" value="write">Writes</Toggle>
            <Toggle name="approval" value="true">Needs approval</Toggle>
            <Toggle name="enabled" value="false">Disabled</Toggle>
            <Toggle name="scope" value="external">For visitors</Toggle>
          </Filters>
          <Panel label="Skills">
            <Shown of={health} what="The skills">
              {() => !all.length
                ? <Empty title="No skill yet" command={`bin/lanekeeper skills create '{"name":"stock","kind":"http","description":"Says what is in stock","parameters":{"type":"object"},"config":{"url":"https://shop.example/stock","method":"GET"}}'`} action={can("create-skill") && <button class="btn primary" onClick={() => after(create())}>New skill</button>}>A skill is a call that agents may make. Create one here, or with:</Empty>
                : !shown.length ? <Filtered what="skill" count={all.length} clear={() => set({ q: null, kind: null, effect: null, approval: null, enabled: null, scope: null })} />
                : <Table rows={shown} selected={name} approval={approval} stopped={stopped} after={after} />}
            </Shown>
          </Panel>
        </div>
        {name && <Detail name={name} health={open} acts={open && acts() && <Actions h={open} halt={stopped.get(name)} after={after} />} />}
      </div>
    </div>
  );
}

// worstFirst puts what is disabled or fails at the top, then what is called most.
const worstFirst = (a: Health, b: Health) =>
  Number(a.enabled) - Number(b.enabled) || Number(b.streak > 0) - Number(a.streak > 0) || b.calls - a.calls || a.skill.localeCompare(b.skill);

function Healed({ heal: h, health, halt, automations, after }: {
  heal: Heal; health?: Health; halt?: Switch; automations: string[]; after: (done: Promise<unknown>) => void;
}) {
  return (
    <Callout tone="warn" title={`Self-healing disabled ${h.skill} at ${fmt.time(h.createdAt, false)}, after ${fmt.plural(h.failures, "failure")} in a row.`}
      acts={<>
        {can("run-skill") && health?.enabled && !halt && <button class="btn" onClick={() => after(test(h.skill))}>Test</button>}
        {can("undo-heal") && <button class="btn" onClick={() => after(undo(h, automations))}>Undo</button>}
      </>}>
      {causes[h.code] ?? `Its errors are of the class ${h.code}`}{health?.lastError && `: ${health.lastError}`}.{" "}
      {automations.length > 0 && <>The {automations.length === 1 ? "automation" : "automations"} <a class="link" href={href("automations")}>{automations.join(", ")}</a> {automations.length === 1 ? "was" : "were"} disabled with it. </>}
      {h.status === "probing" ? "Its next call decides whether it is enabled again."
        : h.probeAt ? `A probe at ${fmt.time(h.probeAt, false)} may enable ${automations.length ? "all of it" : "it"} again.` : ""}
    </Callout>
  );
}

const acts = (): boolean => can("run-skill") || can("disable-skill");

// Table lists the skills. On a phone what can be done with one stands in its detail.
function Table({ rows, selected, approval, stopped, after }: {
  rows: Health[]; selected?: string; approval: Map<string, boolean>; stopped: Map<string | undefined, Switch>; after: (done: Promise<unknown>) => void;
}) {
  const wide = selected ? "hide" : "hide-p";
  return (
    <div class="scroll">
      <table class="tbl skills" aria-label="Skills">
        <thead>
          <tr>
            <th>Skill</th><th>Status</th><th class={wide}>Kind</th><th class="hide-p">14 days</th><th class="r">Success</th><th class={"r " + wide}>Calls</th>
            <th class={"r roomy " + wide}>p50</th><th class={"r desk " + wide}>p95</th><th class="r hide-p">Streak</th>{acts() && <th class={wide}><span class="sr">Actions</span></th>}
          </tr>
        </thead>
        <tbody>
          {rows.map((h) => {
            const halt = stopped.get(h.skill);
            return (
              <tr key={h.skill} aria-selected={h.skill === selected}>
                <td class="strong"><a class="lnk" href={href("skills/" + seg(h.skill)) + location.search} onClick={(e) => { if (h.skill === selected) { e.preventDefault(); go(href("skills") + location.search); } }}>{h.skill}</a></td>
                <td>{halt ? <Said tone="failed">Stopped</Said> : <Status kind="skill" value={statusOf(h)} />}</td>
                <td class={wide}>
                  <span class="row"><Tag>{h.kind}</Tag><Tag>{h.effect}</Tag>{approval.get(h.skill) && <Status kind="approval" value="pending" word="Each call needs an approval" bare />}</span>
                </td>
                <td class="hide-p"><Spark days={h.series} /></td>
                <td class="r">{h.calls ? fmt.percent(h.successRate) : <span class="muted">–</span>}</td>
                <td class={"r muted " + wide}>{fmt.count(h.calls)}</td>
                <td class={"r roomy " + wide}>{fmt.duration(h.p50Ms)}</td>
                <td class={"r desk " + wide}>{fmt.duration(h.p95Ms)}</td>
                <td class="r hide-p">{h.streak ? <span class="st failed">{h.streak} failed</span> : <span class="muted">–</span>}</td>
                {acts() && <td class={"r " + wide}><Actions h={h} halt={halt} after={after} /></td>}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Actions({ h, halt, after }: { h: Health; halt?: Switch; after: (done: Promise<unknown>) => void }) {
  return (
    <span class={halt || !h.enabled ? "acts on" : "acts"}>
      {can("run-skill") && h.enabled && !halt && <button class="btn sm" aria-label={`Test ${h.skill}`} onClick={() => after(test(h.skill))}>Test</button>}
      {halt ? can("release-kill-switch") && <button class="btn sm" aria-label={`Release ${h.skill}`} onClick={() => after(release(halt))}>Release</button>
        : can("set-kill-switch") && <button class="btn sm danger" aria-label={`Stop ${h.skill}`} onClick={() => after(stop(h.skill))}>Stop</button>}
      {h.enabled ? can("disable-skill") && <button class="btn sm danger" aria-label={`Disable ${h.skill}`} onClick={() => after(disable(h.skill))}>Disable</button>
        : can("enable-skill") && <button class="btn sm" aria-label={`Enable ${h.skill}`} onClick={() => after(enable(h.skill))}>Enable</button>}
    </span>
  );
}
