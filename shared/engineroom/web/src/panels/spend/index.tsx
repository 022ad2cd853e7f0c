import { useState } from "preact/hooks";
import { Callout, can, Empty, fmt, type Page, More, Outputs, PageHead, Panel, Said, second, Seg, setQuery, Shown, useQuery, useResource } from "../../ui";
import { change, create, reallocate } from "./actions";
import { adviceOf, type Budget, dayMs, evenRate, lasts, nameOf, periodOf, type Projection, type Series, type Usage } from "./budget";
import { Burn, sentence } from "./burn";
import { Days } from "./days";
import { useWhole } from "../../app/whole";
import { useProjections } from "./read";
import "./spend.css";

const spans = [["today", "Today"], ["-7d", "7 d"], ["", "Period"], ["-90d", "90 d"]] as const;
const splits = [["model", "Model"], ["operation", "Operation"], ["agent", "Agent"], ["surface", "Surface"]] as const;

// Spend shows what agents cost, and how long their budgets last.
export default function Spend() {
  const [query] = useQuery();
  const now = second.value;
  const active = { active: "true", scope: query.get("scope") };
  const budgets = useWhole<Page<Budget>>("/budgets", active, { kinds: ["budget."], every: 60_000 });
  const all = budgets.data?.items ?? [];
  const main = all.find((b) => b.id === query.get("budget")) ?? all.find((b) => b.scope === "global") ?? all[0];
  const projections = useProjections(all);
  const reload = (done: Promise<unknown>) => void done.then(() => budgets.reload());
  return (
    <div class="page grid">
      <PageHead title="Spend and budgets" acts={<>
        <Seg label="Time" now={query.get("since") ?? ""} of={spans} onChange={(v) => setQuery({ since: v })} />
        {can("reallocate-budgets") && all.length > 1 && <button class="btn" onClick={() => reload(reallocate(all, main))}>Reallocate</button>}
        {can("create-budget") && <button class="btn primary" onClick={() => reload(create(now))}>New budget</button>}
      </>}>
        No budget is exceeded by surprise: what is at work is reserved before it starts.
      </PageHead>
      {main && <Advice budget={main} projection={projections[main.id]} now={now} all={all} reload={reload} />}
      {main && <Burning budget={main} now={now} />}
      <Using main={main} now={now} />
      <Panel title="Budgets" note={budgets.data && fmt.count(all.length) + (budgets.more ? "+" : "")} aside={<Outputs path="/budgets" params={active} />}>
        <Shown of={budgets} what="The budgets">
          {() => all.length
            ? <Table budgets={all} main={main} projections={projections} now={now} reload={reload} />
            : <Empty title="No budget yet" command={`bin/lanekeeper budgets create '{"scope":"global","allocated":1000000,"periodStart":"2026-01-01T00:00:00Z","periodEnd":"2099-01-01T00:00:00Z"}'`} action={can("create-budget") && <button class="btn primary" onClick={() => reload(create(now))}>New budget</button>}>A budget bounds the tokens or dollars of the workspace, an agent, a project or a task. Create one here, or with:</Empty>}
        </Shown>
        <More of={budgets} what="budgets" />
      </Panel>
    </div>
  );
}

function Advice({ budget: b, projection: p, now, all, reload }: { budget: Budget; projection?: Projection; now: number; all: Budget[]; reload: (done: Promise<unknown>) => void }) {
  const [tone, word] = adviceOf(b, p);
  if (tone === "done" || tone === "quiet" || !p) return null;
  const end = p.projectedExhaustionDate;
  const days = end ? Math.max(0, Math.floor((Date.parse(b.periodEnd) - Date.parse(end)) / dayMs)) : 0;
  const spent = b.remaining <= 0;
  return (
    <Callout tone={tone} title={spent ? `The budget is spent: ${nameOf(b)}. Work under it is paused until ${fmt.time(b.periodEnd, false)}.`
      : `${word}: the budget ${b.scope === "global" ? "of the workspace" : `“${nameOf(b)}”`} ends ${end ? `on ${fmt.day(end)}` : "soon"}${days ? `, ${fmt.plural(days, "day")} before its period` : ", before its period"}.`}
      acts={<>
        {can("reallocate-budgets") && all.length > 1 && <button class="btn" onClick={() => reload(reallocate(all, b))}>Move tokens here</button>}
        {can("patch-budget") && <button class="btn" onClick={() => reload(change(b))}>Add tokens</button>}
      </>}>
      {fmt.tokens(p.dailyBurnRate)} tokens were used in the last 24 h; {fmt.tokens(evenRate(b, now))} a day would last.{" "}
      {p.recommendation === "STOP" ? "Only work that is marked critical goes on." : "Less urgent tasks wait longer, and beats do less."}
    </Callout>
  );
}

function Burning({ budget: b, now }: { budget: Budget; now: number }) {
  const [query] = useQuery();
  const [table, setTable] = useState(false);
  const since = query.get("since");
  const days = since === "-7d" ? 7 : since === "-90d" ? 90 : Math.max(1, Math.min(90, Math.ceil((now - Date.parse(b.periodStart)) / dayMs)));
  const series = useResource<Series>(`/budgets/${b.id}/series`, { days }, { kinds: ["budget."], every: 120_000 });
  return (
    <Panel title={`${nameOf(b)} budget`} note={periodOf(b, now)}
      aside={<span class="num muted hide-p totals">{fmt.tokens(b.consumed)} used · {fmt.tokens(b.reserved)} reserved · <b>{fmt.tokens(Math.max(0, b.remaining))} left</b> of {fmt.tokens(b.allocated)}</span>}>
      <Shown of={series} what="The burn-down">
        {(s) => (
          <>
            <p class="said dim">{sentence(b, s, now)}.</p>
            {table ? (
              <div class="scroll"><table class="tbl" aria-label="What was left at each day's end">
                <thead><tr><th>Day</th><th class="r">Used</th><th class="r">Cost</th><th class="r">Left</th></tr></thead>
                <tbody>{s.items.map((d) => <tr key={d.day}><td class="num">{d.day.slice(0, 10)}</td><td class="r">{fmt.tokens(d.tokens)}</td><td class="r">{fmt.money(d.microUsd)}</td><td class="r">{fmt.tokens(d.remaining)}</td></tr>)}</tbody>
              </table></div>
            ) : <Burn budget={b} series={s} now={now} />}
            <p class="under"><button type="button" class="btn sm ghost" aria-pressed={table} onClick={() => setTable(!table)}>{table ? "Show as chart" : "Show as table"}</button></p>
          </>
        )}
      </Shown>
    </Panel>
  );
}

const mostUsage = 2000; // rows

function Using({ main, now }: { main?: Budget; now: number }) {
  const [query] = useQuery();
  const span = query.get("since");
  const today = Math.floor(now / dayMs) * dayMs;
  const period = main && Date.parse(main.periodEnd) - Date.parse(main.periodStart) > dayMs ? Date.parse(main.periodStart) : today - 29 * dayMs;
  const from = span === "today" ? today : span === "-7d" ? today - 6 * dayMs : span === "-90d" ? today - 89 * dayMs : Math.max(period, today - 89 * dayMs);
  const since = new Date(from).toISOString();
  const split = query.get("split") ?? "model";
  const by = query.get("by") ?? "operation";
  const daily = useWhole<Page<Usage>>("/usage", { by: `day,${split}`, since }, { every: 60_000 }, mostUsage);
  const sums = useWhole<Page<Usage>>("/usage", { by, since }, { every: 60_000 }, mostUsage);
  return (
    <div class="grid ov">
      <Panel title="Tokens a day" note={`by ${split}`} aside={<><Seg label="Split by" now={split} of={splits} onChange={(v) => setQuery({ split: v === "model" ? null : v })} /><Outputs small path="/usage" params={{ by: `day,${split}`, since }} /></>}>
        <Shown of={daily} what="The usage">{({ items }) => (items.length ? <Days rows={items} from={from} to={now} by={split} /> : <Empty title="No tokens were used">No model was called in this time.</Empty>)}</Shown>
      </Panel>
      <Panel title={by === "skill" ? "By skill" : "By operation"} note={span === "today" ? "today" : span ? `last ${span.slice(1, -1)} days` : "this period"}
        aside={<Seg label="Sums by" now={by} of={[["operation", "Operation"], ["skill", "Skill"]]} onChange={(v) => setQuery({ by: v === "operation" ? null : v })} />}>
        <Shown of={sums} what="The usage">{({ items }) => (items.length ? <Sums rows={items} by={by} /> : <Empty title="No tokens were used">No model was called in this time.</Empty>)}</Shown>
      </Panel>
    </div>
  );
}

const most = 6;

type Sum = Pick<Usage, "key" | "calls" | "totalTokens" | "costMicroUsd">;

// Sums lists what cost most. The cost of a model call is shared among the skills that it asked for.
function Sums({ rows, by }: { rows: Usage[]; by: string }) {
  const priced = rows.some((r) => r.costMicroUsd > 0);
  const of = (r: Sum): number => (priced ? r.costMicroUsd : r.totalTokens);
  const sorted: Sum[] = [...rows].sort((a, b) => of(b) - of(a) || b.totalTokens - a.totalTokens);
  const head = sorted.slice(0, most);
  const rest = sorted.slice(most);
  if (rest.length) {
    head.push({ key: rest.length === 1 ? "1 other" : `${rest.length} others`, calls: 0, totalTokens: rest.reduce((n, r) => n + r.totalTokens, 0), costMicroUsd: rest.reduce((n, r) => n + r.costMicroUsd, 0) });
  }
  const largest = Math.max(1, ...head.map(of));
  return (
    <table class="tbl sums" aria-label={`Tokens and cost by ${by}`}>
      <thead class="sr"><tr><th>{by}</th><th>Tokens</th><th>Cost</th></tr></thead>
      <tbody>
        {head.map((r) => (
          <tr key={r.key}>
            <td class="name"><span class="trunc" title={r.key}>{r.key || "others"}</span><span class="ttl"><i style={{ width: `${(100 * of(r)) / largest}%` }} /></span></td>
            <td class="r">{fmt.tokens(Math.round(r.totalTokens))}</td>
            <td class="r muted">{fmt.money(r.costMicroUsd)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Table({ budgets, main, projections, now, reload }: { budgets: Budget[]; main?: Budget; projections: Record<string, Projection>; now: number; reload: (done: Promise<unknown>) => void }) {
  const acts = can("patch-budget") || can("reallocate-budgets");
  return (
    <div class="scroll">
      <table class="tbl budgets" aria-label="Budgets">
        <thead>
          <tr>
            <th>Scope</th><th class="hide-p">Period</th><th class="share-h">Used, reserved, left</th><th class="r">Left</th>
            <th class="r hide-p">A day</th><th class="hide-p">Lasts</th><th>Advice</th>{acts && <th class="hide-p"><span class="sr">Actions</span></th>}
          </tr>
        </thead>
        <tbody>
          {budgets.map((b) => {
            const p = projections[b.id];
            const [tone, word] = adviceOf(b, p);
            const of = Math.max(1, b.allocated);
            const used = Math.min(100, (100 * b.consumed) / of);
            const reserved = Math.min(100 - used, (100 * b.reserved) / of);
            return (
              <tr key={b.id} aria-selected={b === main || undefined}>
                <td class="strong"><a class="lnk" href={`?${new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(location.search)), budget: b.id })}`} title={b.scopeId}>{nameOf(b)}</a></td>
                <td class="muted hide-p">{periodOf(b, now)}</td>
                <td>
                  <span class={"used " + tone} role="img" aria-label={`${Math.round(used)} % used, ${Math.round(reserved)} % reserved`}>
                    <i style={{ width: `${used}%` }} /><i class="res" style={{ width: `${reserved}%` }} />
                  </span>
                </td>
                <td class="r">{fmt.tokens(Math.max(0, b.remaining))}</td>
                <td class="r muted hide-p">{p ? fmt.tokens(p.dailyBurnRate) : "…"}</td>
                <td class="hide-p">{lasts(b, p)}</td>
                <td><Said tone={tone}>{word}</Said></td>
                {acts && (
                  <td class="r hide-p"><span class="acts">
                    {can("patch-budget") && <button class="btn sm" aria-label={`Change ${nameOf(b)}`} onClick={() => reload(change(b))}>Change</button>}
                    {can("reallocate-budgets") && budgets.length > 1 && <button class="btn sm" aria-label={`Move tokens to ${nameOf(b)}`} onClick={() => reload(reallocate(budgets, b))}>Move</button>}
                  </span></td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
