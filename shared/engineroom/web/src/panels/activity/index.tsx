import "./activity.css";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { usePages } from "../../app/pages";
import { moment, ranges } from "../../app/range";
import { useResource } from "../../app/resource";
import { setQuery } from "../../app/router";
import { fmt } from "../../app/fmt";
import { serverNow } from "../../app/api";
import type { Activity } from "../../app/types";
import { Activities } from "../../ui/activity";
import { Glyph } from "../../ui/icon";
import { most } from "../../ui/list";
import { Choose, Filters, Outputs, PageHead, Search, Toggle, useWidth } from "../../ui/parts";
import { Empty, Failed, Filtered, Loading } from "../../ui/states";
import type { PanelProps } from "../props";
import type { HistogramAnswer } from "../../app/api.gen";

const surfaces = ["heartbeat", "operate", "chat", "webhook", "worker", "coordinator"].map((s) => [s, s] as const);
const names = ["status", "surface", "skill", "agent", "q", "since", "until", "traceId"];

/** ActivityPanel shows what agents did, newest first. It follows live while it is at its top. */
export default function ActivityPanel({ query }: PanelProps) {
  const [minute, setMinute] = useState(0);
  useEffect(() => {
    // "The last hour" goes on with the time, while nobody reads further down.
    const timer = setInterval(() => { if (!document.hidden && document.getElementById("main")!.scrollTop < 60) setMinute((n) => n + 1); }, 60_000);
    return () => clearInterval(timer);
  }, []);
  const since = useMemo(() => moment(query.get("since")), [query.get("since"), minute]);
  const until = useMemo(() => moment(query.get("until")), [query.get("until")]);
  const params = { ...Object.fromEntries(names.map((n) => [n, query.get(n)])), since, until, limit: 100 };
  const filtered = names.some((n) => query.has(n));

  // Nothing moves under the pointer: while the list is scrolled, new rows wait behind a pill.
  const [held, hold] = useState<Activity[] | null>(null);
  const pages = usePages<Activity>("/activity", params, (a) => a.id, { kinds: ["activity"], apart: held ? 3000 : undefined, timeOf: (a) => a.createdAt });
  const items = pages.items;
  const now = useRef(items);
  now.current = items;
  useEffect(() => {
    const main = document.getElementById("main")!;
    const scrolled = (): void => hold((h) => (main.scrollTop > 60 ? h ?? now.current ?? null : null));
    main.addEventListener("scroll", scrolled, { passive: true });
    return () => main.removeEventListener("scroll", scrolled);
  }, []);
  const key = JSON.stringify(params);
  useEffect(() => hold(null), [key]);
  const histogram = useMemo(() => <Histogram params={{ ...params, limit: undefined }} since={since} until={until} />, [key]);
  const firstHeld = held?.[0]?.id;
  const waiting = firstHeld && items ? Math.max(0, items.findIndex((a) => a.id === firstHeld)) : 0;
  const rows = (waiting && items ? items.slice(waiting) : items ?? []).slice(0, most);
  const clear = (): void => setQuery(Object.fromEntries(names.map((n) => [n, null])));
  return (
    <div class="page">
      <PageHead title="Activity" acts={<Outputs path="/activity" params={params} />}>What agents did, newest first. The list follows live while you are at its top.</PageHead>
      <Filters>
        <Search placeholder="Search skill, text" />
        <Toggle name="status" value="error"><Glyph tone="failed" />Errors</Toggle>
        <Toggle name="status" value="pending_approval"><Glyph tone="person" />Needs approval</Toggle>
        <Toggle name="status" value="skipped"><Glyph tone="quiet" />Skipped</Toggle>
        <Choose name="surface" label="Surface" options={surfaces} />
        <Choose name="since" label="Any time" options={ranges} />
        {["agent", "skill", "traceId", "until"].filter((n) => query.has(n)).map((n) => (
          <button type="button" key={n} class="f on" onClick={() => setQuery({ [n]: null })}>{n} <b class="trunc">{n === "until" ? fmt.time(query.get(n)) : query.get(n)}</b> <span aria-label="Clear">×</span></button>
        ))}
      </Filters>
      {waiting > 0 && <div class="pill"><button type="button" class="btn" onClick={() => { hold(null); document.getElementById("main")!.scrollTop = 0; }}>{waiting} new</button></div>}
      <section class="panel">
        {histogram}
        {items ? (
          rows.length ? <Activities rows={rows} onEnd={rows.length < most ? pages.more : undefined} />
            : filtered ? <Filtered what="activity" all="/activity" clear={clear} />
            : <Empty title="Nothing has happened yet" command="bin/lanekeeper trigger heartbeat">Each thing that an agent does stands here: calls, answers, beats.</Empty>
        ) : pages.error ? <Failed error={pages.error} retry={pages.reload} what="Activity" /> : <Loading lines={8} />}
        {pages.error && items && <Failed error={pages.error} retry={pages.reload} what="More of it" />}
      </section>
    </div>
  );
}

type Buckets = HistogramAnswer;

// Histogram is how much happened when. A drag over it sets since and until.
function Histogram({ params, since, until }: { params: Record<string, string | number | undefined | null>; since?: string; until?: string }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const from = useMemo(() => since ?? new Date(Math.floor((serverNow() - 90 * 60_000) / 60_000) * 60_000).toISOString(), [since]);
  const read = useResource<Buckets>("/activity/histogram", { ...params, since: from }, { kinds: ["activity"], apart: 10_000 });
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const height = 56;
  const b = read.data;
  if ((read.error && !b) || (b && b.items.length === 0)) return null;
  const seconds = b?.bucketSeconds ?? 60;
  const start = Math.floor(+new Date(from) / 1000 / seconds) * seconds * 1000;
  const end = until ? +new Date(until) : Math.max(serverNow(), start + seconds * 1000);
  const count = Math.max(1, Math.min(130, Math.ceil((end - start) / 1000 / seconds)));
  const w = Math.max(0, width) / count;
  const total = (i: Buckets["items"][number]): number => i.success + i.error + i.pendingApproval + i.skipped;
  const top = Math.max(1, ...(b?.items ?? []).map(total));
  const errors = (b?.items ?? []).reduce((n, i) => n + i.error, 0);
  const at = (e: PointerEvent): number => Math.max(0, Math.min(count, (e.clientX - box.current!.getBoundingClientRect().left) / w));
  const finish = (): void => {
    if (drag && Math.abs(drag[1] - drag[0]) >= 1) {
      const [a, z] = [Math.floor(Math.min(...drag)), Math.ceil(Math.max(...drag))];
      setQuery({ since: new Date(start + a * seconds * 1000).toISOString(), until: new Date(start + z * seconds * 1000).toISOString() });
    }
    setDrag(null);
  };
  return (
    <div class="histo wide-only" ref={box}
      onPointerDown={(e) => { e.currentTarget.setPointerCapture(e.pointerId); setDrag([at(e), at(e)]); }}
      onPointerMove={(e) => drag && setDrag([drag[0], at(e)])} onPointerUp={finish} onPointerCancel={() => setDrag(null)}>
      {width > 0 && b && (
        <svg class="ch" width={width} height={height} role="img"
          aria-label={`${fmt.plural((b.items).reduce((n, i) => n + total(i), 0), "activity", "activities")} since ${fmt.time(from, false)}, ${errors} failed; a bar is ${fmt.duration(seconds * 1000)}`}>
          {b.items.map((i) => {
            const n = (+new Date(i.at) - start) / 1000 / seconds;
            const h = Math.max(2, (total(i) / top) * (height - 4));
            const f = i.error ? Math.max(3, (i.error / top) * (height - 4)) : 0;
            const p = i.pendingApproval ? Math.max(3, (i.pendingApproval / top) * (height - 4)) : 0;
            return (
              <g key={i.at}><title>{`${fmt.time(i.at, false)}: ${total(i)}${i.error ? `, ${i.error} failed` : ""}`}</title>
                <rect x={n * w + 1} y={height - h} width={Math.max(1, w - 2)} height={h} rx="1" fill="var(--tool)" />
                {f > 0 && <rect x={n * w + 1} y={height - f} width={Math.max(1, w - 2)} height={f} rx="1" fill="var(--failed)" />}
                {p > 0 && <rect x={n * w + 1} y={height - f - p} width={Math.max(1, w - 2)} height={p} rx="1" fill="var(--person)" />}
              </g>
            );
          })}
          {drag && <rect x={Math.min(...drag) * w} y="0" width={Math.abs(drag[1] - drag[0]) * w} height={height} fill="var(--active)" opacity=".15" />}
        </svg>
      )}
    </div>
  );
}
