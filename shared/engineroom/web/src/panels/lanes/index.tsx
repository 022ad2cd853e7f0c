import { useMemo } from "preact/hooks";
import { api, can } from "../../app/api";
import { seg } from "../../app/base";
import { fmt, second } from "../../app/fmt";
import { overview } from "../../app/overview";
import { useWhole } from "../../app/whole";
import { useQuery } from "../../app/router";
import { confirm } from "../../ui/confirm";
import { Bar, Countdown, Said, TraceLink } from "../../ui/marks";
import { Empty, Filtered, More, Shown } from "../../ui/states";
import { Callout, Filters, Outputs, PageHead, Panel, Toggle } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { ended, holderName, pastOf, surfaceOf, useAtZero, type Hold, type LanesPage, type History } from "./lane";
import { Queues } from "./queues";
import { Holds } from "./strip";
import "./lanes.css";

const half = 30 * 60_000;
const mostHolds = 4000; // on the strip
const surfaces = ["heartbeat", "operate", "chat", "webhook", "worker", "coordinator"];

// Lanes shows who holds what, and who waits for it.
export default function Lanes() {
  const [query, setQuery] = useQuery();
  const now = second.value;
  const held = useWhole<LanesPage>("/lanes", {}, { kinds: ["lane."], every: 5000 }); // no event tells of what other programs hold
  // The strip is asked for anew each minute, and whenever a lane changes hands.
  const since = new Date(Math.floor(now / 60_000) * 60_000 - half).toISOString();
  const history = useWhole<History>("/lanes/history", { since }, { kinds: ["lane."] }, mostHolds);
  const surface = query.get("surface");
  const waiting = query.get("waiting") === "true";

  // What a lane is about, and what its holder does, the overview knows.
  const known = new Map(overview.value?.lanes.map((l) => [l.lane, l]));
  const all = (held.data?.items ?? []).map((l) => ({ ...l, label: l.label || known.get(l.lane)?.label || "", doing: l.doing || known.get(l.lane)?.doing || undefined }));
  const shown = all.filter((l) => (!surface || surfaceOf(l.traceId) === surface) && (!waiting || l.wantedAt));
  const blocked = all.filter((l) => l.wantedAt && now - Date.parse(l.wantedAt) > 2000);
  const next = overview.value?.beat.nextAt;
  // The history has the holds of runs alone.
  const holds = useMemo(() => {
    const past = history.data?.items ?? [];
    const going = new Set(past.filter((h) => !h.endedAt).map((h) => h.lane));
    return [...(held.data?.items ?? []).filter((l) => !going.has(l.lane)).map(pastOf), ...past];
  }, [held.data, history.data]);
  const expired = all.some((l) => ended(l, now));
  useAtZero(expired, held.reload);

  const release = async (l: Hold) => {
    const said = await confirm({
      title: `Release lane ${l.label || l.lane}?`,
      effect: `${holderName(l.holder)} holds it. Its token is dead from then on, and what it writes under it is refused.`
        + (l.wantedBy ? ` ${holderName(l.wantedBy)} waits for it.` : ""),
      reason: true,
      action: "Release lane",
    });
    if (!said) return;
    try {
      const { released } = await api.post<{ released: boolean }>(`/lanes/${seg(l.lane)}/force-release`, {
        reason: said.reason, fence: l.fence,
      });
      toast(released ? `Lane ${l.lane} is released` : `Nobody held ${l.lane} any more`);
    } catch (e) {
      toast(e instanceof Error ? e.message : String(e));
    }
    held.reload();
    history.reload();
  };

  return (
    <div class="page grid">
      <PageHead title="Lanes" acts={<Outputs path="/lanes" params={{ limit: 200 }} />}>A lane is a lock that is a row: one holder at a time, a fence that only grows, a lease that ends by itself.</PageHead>
      {blocked.slice(0, 3).map((l) => (
        <Callout key={l.lane} tone="warn" title={`${l.label || l.lane} is wanted${l.wantedBy ? ` by ${holderName(l.wantedBy)}` : ""}.`}
          acts={can("force-release-lane") && <button class="btn" onClick={() => void release(l)}>Force release</button>}>
          {holderName(l.holder)} holds it for {fmt.duration(now - Date.parse(l.lockedAt))}; it ends in <Countdown to={l.expiresAt} /> at
          the latest unless it is renewed. {holderName(l.wantedBy ?? "somebody")} waits for {fmt.duration(now - Date.parse(l.wantedAt!))}.
        </Callout>
      ))}
      <Panel title="Last 30 minutes" note={history.data?.nextCursor ? `the last ${fmt.count(history.data.items.length)} holds` : "two holds of one lane never overlap"}>
        <Shown of={history} what="The holds of the last half hour">{() => <Holds holds={holds} held={all.length} now={now} span={half} next={next ? Date.parse(next) : null} />}</Shown>
      </Panel>
      <div>
        <Filters>
          <Toggle name="waiting" value="true">Somebody waits</Toggle>
          {surfaces.map((of) => <Toggle key={of} name="surface" value={of}>{of}</Toggle>)}
        </Filters>
        <Panel title="Held now" note={held.data ? fmt.count(all.length) + (held.data.nextCursor ? "+" : "") : undefined}>
          <Shown of={held} what="The lanes">
            {() => !all.length ? <Empty title="No lane is held" command="bin/lanekeeper locks">A lane is held while a run works. The half hour before stands above; the same as text:</Empty>
              : !shown.length ? <Filtered what="lane" count={all.length} clear={() => setQuery({ waiting: null, surface: null })} />
              : <HeldTable holds={shown} now={now} release={release} />}
          </Shown>
          <More of={held} what="lanes" />
        </Panel>
      </div>
      {held.data?.queues && <Queues queues={held.data.queues} />}
    </div>
  );
}

function HeldTable({ holds, now, release }: { holds: Hold[]; now: number; release: (l: Hold) => Promise<void> }) {
  const may = can("force-release-lane");
  return (
    <div class="scroll">
      <table class="tbl lanes" aria-label="Lanes held now">
        <thead>
          <tr>
            <th>Lane</th><th>Holder</th><th class="hide-p">Doing</th><th class="r hide-p">Held</th><th class="lease">Lease</th>
            <th>Waiting</th><th class="hide-p">Trace</th>{may && <th><span class="sr">Actions</span></th>}
          </tr>
        </thead>
        <tbody>
          {holds.map((l) => {
            const total = Date.parse(l.expiresAt) - Date.parse(l.lockedAt);
            const left = Math.max(0, Date.parse(l.expiresAt) - now);
            const waits = l.wantedAt ? now - Date.parse(l.wantedAt) : 0;
            return (
              <tr key={l.lane}>
                <td><div class="trunc name" title={`${l.lane}, fence ${l.fence}`}>{l.label || l.lane}</div></td>
                <td><div class="trunc holder" title={l.holder}>{holderName(l.holder)}</div></td>
                <td class="muted hide-p"><div class="trunc doing">{l.doing || "–"}</div></td>
                <td class="r hide-p">{fmt.duration(now - Date.parse(l.lockedAt))}</td>
                <td>
                  <span class="row">
                    <span class="num left"><Countdown to={l.expiresAt} /></span>
                    <span class="grow"><Bar share={left / total} /></span>
                  </span>
                </td>
                <td class="waits">
                  {!l.wantedAt ? <span class="muted">–</span>
                    : waits > 2000 ? <><Said tone="warn">{fmt.duration(waits)}</Said> <span class="muted">{holderName(l.wantedBy ?? "")}</span></>
                    : <span class="muted">{holderName(l.wantedBy ?? "")}</span>}
                </td>
                <td class="hide-p"><TraceLink id={l.traceId} keep={12} /></td>
                {may && (
                  <td class="r">
                    <span class={l.wantedAt ? "acts on" : "acts"}>
                      <button class="btn sm danger" aria-label={`Release ${l.lane}`} onClick={() => void release(l)}>Release</button>
                    </span>
                  </td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
