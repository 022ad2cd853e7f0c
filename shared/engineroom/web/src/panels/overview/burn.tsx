import { useResource } from "../../app/resource";
import { serverNow } from "../../app/api";
import { fmt } from "../../app/fmt";
import type { Overview, Page } from "../../app/types";
import { Bar, Said } from "../../ui/marks";
import { Panel, useWidth } from "../../ui/parts";
import { Empty } from "../../ui/states";
import type { Tone } from "../../ui/status";
import { nameOf, periodOf } from "../spend/budget";
import type { BudgetItem, BudgetSeries } from "../../app/api.gen";

type Budget = BudgetItem;

type Series = BudgetSeries;

const tones: Record<string, Tone> = { CONTINUE: "done", THROTTLE: "warn", STOP: "failed" };

/** Burn is what was spent today, and how the workspace's budget goes down. */
export function Burn({ o }: { o: Overview }) {
  const budgets = useResource<Page<Budget>>("/budgets", { limit: 50 }, { kinds: ["budget."] });
  const budget = budgets.data?.items.find((b) => b.scope === "global") ?? budgets.data?.items[0];
  const series = useResource<Series>(budget ? `/budgets/${budget.id}/series` : null, { days: 30 }, { every: 60_000 });
  const advice = series.data?.projection.recommendation;
  const { today } = o;
  const share = today.capMicroUsd ? today.cappedMicroUsd / today.capMicroUsd : today.capTokens ? today.cappedTokens / today.capTokens : null;
  const all = today.cappedTokens === today.tokens; // the cap is of all calls, or all calls were of beats
  return (
    <Panel title="Spend" note="today" more={["Budgets", "spend"]}>
      <div class="spend-head">
        <p><b class="num big">{fmt.money(today.microUsd)}</b> <span class="muted">{all && today.capMicroUsd ? `of ${fmt.money(today.capMicroUsd)} today` : "today"}</span></p>
        {advice && <Said tone={tones[advice] ?? "quiet"}>{advice.charAt(0) + advice.slice(1).toLowerCase()}</Said>}
      </div>
      <p class="muted spend-sub">{fmt.tokens(today.tokens)} tokens{all && today.capTokens ? ` of ${fmt.tokens(today.capTokens)}` : ""} in {fmt.plural(today.calls, "call")}</p>
      {!all && today.capTokens ? <p class="muted spend-sub">Beats used {today.capMicroUsd ? `${fmt.money(today.cappedMicroUsd)} of ${fmt.money(today.capMicroUsd)}` : `${fmt.tokens(today.cappedTokens)} of ${fmt.tokens(today.capTokens)}`}</p> : null}
      {share !== null && <div class="spend-bar"><Bar share={share} tone={share >= 1 ? "failed" : share > 0.9 ? "warn" : undefined} label={`${Math.round(share * 100)} % of the day's cap`} /></div>}
      {budget && <p class="spend-of">{nameOf(budget)} <span class="muted">{periodOf(budget, serverNow())}</span></p>}
      {budget && series.data?.items.length ? <Line of={series.data} budget={budget} /> : !budget && budgets.data ? <Empty title="No budget">Without one nothing bounds what is spent.</Empty> : <div class="burn-gap" aria-busy={budgets.loading || series.loading} />}
    </Panel>
  );
}

// Line draws what was left at the end of each day, the even pace dotted, and where the present pace leads dashed
// in a band between yesterday's pace and the week's.
function Line({ of, budget }: { of: Series; budget: Budget }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const h = 176, left = 48, right = 16, foot = 24, top = 14;
  // Each day's point is its end: of today, now. The line begins with the period.
  const last = serverNow();
  const begins = +new Date(budget.periodStart), ends = +new Date(budget.periodEnd);
  const items = of.items.map((i) => ({ at: Math.min(+new Date(i.day) + 86_400_000, last), remaining: i.remaining })).filter((i) => i.at > begins || begins >= last);
  if (begins < last && +new Date(of.items[0]!.day) <= begins) items.unshift({ at: begins, remaining: of.allocated });
  const first = items[0]!.at;
  const end = Math.max(last, ends);
  const most = Math.max(of.allocated, ...items.map((i) => i.remaining), 1);
  const x = (t: number): number => left + ((t - first) / Math.max(1, end - first)) * (width - left - right);
  const y = (v: number): number => top + (1 - Math.max(0, v) / most) * (h - top - foot);
  const line = items.map((i, n) => `${n ? "L" : "M"}${x(i.at).toFixed(1)} ${y(i.remaining).toFixed(1)}`).join("");
  const lastItem = items.at(-1)!;
  const rate = of.projection.dailyBurnRate / 86_400_000;
  const zero = rate > 0 ? last + Math.max(0, lastItem.remaining) / rate : Infinity;
  const { dailyBurnRate, rateYesterday, rateWeek } = of.projection;
  const rates = [dailyBurnRate, rateYesterday, rateWeek].map((r) => r / 86_400_000);
  // edge is where a pace leads, and along the foot once nothing is left.
  const edge = (pace: number): string[] => [Math.min(end, last + lastItem.remaining / Math.max(pace, 1e-9)), end]
    .map((t) => `${x(t).toFixed(1)} ${y(lastItem.remaining - pace * (t - last)).toFixed(1)}`);
  const slow = Math.min(...rates), fast = Math.max(...rates);
  const even = (t: number): number => (of.allocated * (ends - t)) / Math.max(1, ends - begins);
  const from = Math.max(first, begins), to = Math.min(zero, end);
  const leads = ends <= last || lastItem.remaining <= 0 ? "" : zero < ends ? `; at this pace they end on ${fmt.day(zero)}` : "; at this pace they last until the period ends";
  // The words of the even pace stand away from now, on the side of its line where no other line runs.
  const early = last < (from + ends) / 2, paced = from + (ends - from) * (early ? 0.65 : 0.3);
  const under = early ? lastItem.remaining - rate * (paced - last) > even(paced) : lastItem.remaining > even(last);
  const at = x(last), tight = at > width - right - 72;
  const below = y(lastItem.remaining) + 18; // the line comes down from the left: the label goes under it, where it has room
  const labelAt = below < y(0) - 4 ? below : Math.max(12, y(lastItem.remaining) - 26);
  return (
    <div ref={box}>
      {width > 0 && (
        <svg class="ch" width={width} height={h} role="img" aria-label={`${fmt.tokens(lastItem.remaining)} of ${fmt.tokens(of.allocated)} tokens remain${leads}`}>
          {[0, 0.5, 1].map((s) => <g key={s}><path class="ax" d={`M${left} ${y(most * s) + 0.5}H${width - right}`} /><text x={left - 8} y={y(most * s) + 4} text-anchor="end">{short(most * s)}</text></g>)}
          <path d={`${line}L${at} ${y(0)}L${x(first)} ${y(0)}Z`} fill="var(--sunken)" />
          {ends > last && fast > slow && lastItem.remaining > 0 && <path class={"band" + (zero < ends ? " warn" : "")} d={`M${at} ${y(lastItem.remaining)}L${[...edge(slow), ...edge(fast).reverse()].join("L")}Z`} />}
          <path d={line} fill="none" stroke="var(--ink)" stroke-width="1.75" stroke-linejoin="round" />
          {ends > from && <path class="even" d={`M${x(from)} ${y(even(from))}L${x(ends)} ${y(0)}`} />}
          {to > last && <path class={"ahead" + (zero < ends ? " warn" : "")} d={`M${at} ${y(lastItem.remaining)}L${x(to)} ${y(lastItem.remaining - rate * (to - last))}`} />}
          {zero < ends && <path class="zero" transform={`translate(${x(zero)},${y(0)})`} d="M0-5 5 4H-5Z"><title>{`spent on ${fmt.day(zero)}`}</title></path>}
          <circle cx={at} cy={y(lastItem.remaining)} r="3.5" fill="var(--ink)" stroke="var(--surface)" stroke-width="2" />
          <text class="strong" x={at + (tight ? -8 : 8)} text-anchor={tight ? "end" : "start"} y={tight ? labelAt : Math.max(12, y(lastItem.remaining) - 8)}>{short(lastItem.remaining)} left</text>
          <text x={left} y={h - 6}>{fmt.day(first)}</text><text x={x(end)} y={h - 6} text-anchor="end">{fmt.day(end)}</text>
          {ends > from && <text x={x(paced) + (under ? -8 : 8)} text-anchor={under ? "end" : "start"} y={y(even(paced)) + (under ? 12 : -6)}>even pace</text>}
        </svg>
      )}
    </div>
  );
}

const short = (n: number): string => (n >= 1e6 ? (n / 1e6).toFixed(n >= 1e7 ? 0 : 1) + " M" : n >= 1e4 ? Math.round(n / 1e3) + " k" : fmt.count(Math.round(n)));
