import { useEffect, useRef } from "preact/hooks";
import type { LaneItem, LaneSpan, LanesPage, QueueItem } from "../../app/api.gen";
import type { Page } from "../../app/types";
export type { LanesPage };

// Hold is a lane that is held now.
export type Hold = LaneItem;

export type Queue = QueueItem;


// Past is a hold of the last half hour, ended or not.
export type Past = LaneSpan;

export type History = Page<LaneSpan>;

// pastOf draws a hold of a program that began no run.
export const pastOf = (l: Hold): Past => ({
  lane: l.lane, label: l.label, holder: l.holder, agent: "", surface: "worker", acquiredAt: l.lockedAt, endedAt: null, ended: "running",
  status: "running", traceId: l.traceId ?? "", executionId: null, changed: true,
});

const prefixes: Record<string, string> = { hb: "heartbeat", op: "operate", ch: "chat", wh: "webhook", wk: "worker", co: "coordinator" };

// surfaceOf is the surface that began a trace.
export const surfaceOf = (trace?: string) => prefixes[trace?.split("_")[0] ?? ""] ?? "";

// holderName shortens "heartbeat/7c41/hb_…" to who that is.
export const holderName = (holder: string) => holder.split("/")[0] || holder;

// ended tells of a hold whose lease is over by now, and that the page still shows.
export const ended = (l: Hold, now: number) => Date.parse(l.expiresAt) <= now;

// shortLane cuts the long id out of a lane's name: "task:01a2037e-4410-…" becomes "task:…4410".
export const shortLane = (lane: string) => lane.replace(/:[0-9a-f]{8}-[0-9a-f-]*?([0-9a-f]{4})$/, ":…$1");

// useAtZero asks once when a lease has ended, and again only after five seconds.
export function useAtZero(zero: boolean, reload: () => void) {
  const last = useRef(0);
  useEffect(() => {
    if (!zero || Date.now() - last.current < 5000) return;
    last.current = Date.now();
    reload();
  });
}
