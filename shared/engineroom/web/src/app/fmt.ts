import { signal } from "@preact/signals";
import { serverNow } from "./api";

/** second is the server's time, once a second; it stands still while the page is stale. */
export const second = signal(Date.now());

/** zone is the time zone on display: "local", "UTC" or the name of one. A workspace has none of its own. */
export const zone = signal(new URLSearchParams(location.search).get("tz") ?? stored("lk-zone") ?? "local");

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // storage may be switched off
  }
}

/** setZone keeps a choice. */
export function setZone(to: string): void {
  zone.value = to;
  try {
    localStorage.setItem("lk-zone", to);
  } catch {
    // it holds until the page is closed
  }
}

type When = string | number | Date | null | undefined;
const ms = (at: When): number => (at === null || at === undefined || at === "" ? NaN : typeof at === "number" ? at : +new Date(at));

const formats = new Map<string, Intl.DateTimeFormat>();
function format(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const of = zone.value === "local" ? undefined : zone.value;
  const key = JSON.stringify(options) + of;
  let f = formats.get(key);
  if (!f) {
    try {
      f = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: of, hourCycle: "h23" });
    } catch {
      f = new Intl.DateTimeFormat("en-GB", { ...options, hourCycle: "h23" }); // no such zone
    }
    formats.set(key, f);
  }
  return f;
}

const number = new Intl.NumberFormat("en-US");
const dash = "–";

const isToday = (at: number): boolean => day(at) === day(serverNow());
function day(at: When): string {
  return Number.isNaN(ms(at)) ? dash : format({ day: "numeric", month: "short" }).format(ms(at));
}

/** duration writes milliseconds for people: "4 ms", "2.3 s", "2 min 18 s", "6 h 12 min", "3 d". */
function duration(n: number | null | undefined): string {
  if (n === null || n === undefined || Number.isNaN(n)) return dash;
  n = Math.max(0, Math.round(n));
  if (n < 1000) return n + " ms";
  if (n < 60_000) return (n < 10_000 ? Math.floor(n / 100) / 10 : Math.floor(n / 1000)) + " s";
  if (n < 3_600_000) {
    const s = Math.floor((n % 60_000) / 1000);
    return Math.floor(n / 60_000) + " min" + (n < 600_000 && s ? ` ${s} s` : "");
  }
  if (n < 86_400_000) {
    const m = Math.floor((n % 3_600_000) / 60_000);
    return Math.floor(n / 3_600_000) + " h" + (m ? ` ${m} min` : "");
  }
  const h = Math.floor((n % 86_400_000) / 3_600_000);
  return Math.floor(n / 86_400_000) + " d" + (n < 3 * 86_400_000 && h ? ` ${h} h` : "");
}

// rough is duration with one unit only.
const rough = (n: number): string =>
  n < 1000 ? "now" : n < 60_000 ? Math.floor(n / 1000) + " s" : n < 3_600_000 ? Math.floor(n / 60_000) + " min"
    : n < 86_400_000 ? Math.floor(n / 3_600_000) + " h" : Math.floor(n / 86_400_000) + " d";

const codes: Record<string, string> = { dependency_failed: "what it depends on failed" };

export const fmt = {
  /** words writes a code such as "retries_exhausted" as words; another text is passed on. */
  words: (text: string): string => (/^[a-z]+(_[a-z]+)+$/.test(text) ? codes[text] ?? text.replaceAll("_", " ") : text),
  /** time is a clock time: "14:10:02"; of another day with the day before it. */
  time(at: When, seconds = true): string {
    const t = ms(at);
    if (Number.isNaN(t)) return dash;
    const clock = format({ hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined }).format(t);
    return isToday(t) ? clock : day(t) + ", " + clock.slice(0, 5);
  },
  /** clock is "14:10:02", whatever the day. */
  clock: (at: When, seconds = true): string =>
    Number.isNaN(ms(at)) ? dash : format({ hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined }).format(ms(at)),
  /** day is "22 Nov". */
  day,
  /** full is a time with its zone, for tooltips. */
  full(at: When): string {
    const t = ms(at);
    return Number.isNaN(t) ? "" : new Date(t).toISOString() + " · " + format({ dateStyle: "medium", timeStyle: "long" }).format(t);
  },
  /** ago is "2 min ago" within an hour, then a clock time, then a day. */
  ago(at: When): string {
    const t = ms(at);
    if (Number.isNaN(t)) return dash;
    const past = serverNow() - t;
    if (past < 0 && past > -3_600_000) return "in " + rough(-past);
    if (past < 1000 && past >= 0) return "now";
    return past < 3_600_000 && past >= 0 ? rough(past) + " ago" : fmt.time(t, false);
  },
  duration,
  rough,
  /** countdown is "27:42", or "2 h 5 min" where it is long; never below zero. */
  countdown(n: number): string {
    n = Math.max(0, Math.round(n / 1000));
    return n >= 3600 ? duration(n * 1000) : Math.floor(n / 60) + ":" + String(n % 60).padStart(2, "0");
  },
  /** money writes micro-dollars: "$0.041" below ten cents, else "$3.42". */
  money(micro: number | null | undefined): string {
    if (micro === null || micro === undefined) return dash;
    const usd = micro / 1e6;
    if (usd === 0) return "$0";
    if (usd < 0.0005) return "< $0.001";
    return "$" + (usd < 0.1 ? usd.toFixed(3) : usd < 1000 ? usd.toFixed(2) : number.format(Math.round(usd)));
  },
  /** tokens writes "41,877", above a million "5.38 M". */
  tokens: (n: number | null | undefined): string =>
    n === null || n === undefined ? dash : Math.abs(n) >= 1e6 ? (n / 1e6).toFixed(2) + " M" : number.format(n),
  /** count writes "4,812". */
  count: (n: number | null | undefined): string => (n === null || n === undefined ? dash : number.format(n)),
  /** plural writes "1 task", "3 tasks". */
  plural: (n: number, one: string, many = one + "s"): string => number.format(n) + " " + (n === 1 ? one : many),
  /** percent writes 0.986 as "98.6 %". */
  percent: (share: number | null | undefined): string =>
    share === null || share === undefined ? dash : (share * 100).toFixed(share === 1 || share === 0 ? 0 : 1) + " %",
  /** short cuts an id to its beginning, and a UUID, which begins with the time, or a lane's id to its end: "hb_0mwrwyqio…", "…f90d0004", "objective:…0d0004". */
  short(id: string | null | undefined, keep = 13): string {
    if (!id) return dash;
    const lane = /^([a-z_]+):[0-9a-f]{8}-.*([0-9a-f]{6})$/.exec(id);
    if (lane) return `${lane[1]}:…${lane[2]}`;
    if (id.length <= keep + 2) return id;
    return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? "…" + id.slice(-Math.min(keep, 8)) : id.slice(0, keep) + "…";
  },
};

setInterval(() => {
  if (!frozen) second.value = serverNow();
}, 1000);

let frozen = false;
/** freeze stops or starts the clocks. */
export function freeze(on: boolean): void {
  frozen = on;
  if (!on) second.value = serverNow();
}
