import { fmt } from "../../app/fmt";
import { reasonTitle } from "./types";

/** actor names who did something: an agent by its name where that is known. */
export function actor(by: string, names: Map<string, string>): string {
  const id = /^agent:(.+)$/.exec(by)?.[1];
  return id ? names.get(id) ?? "agent " + fmt.short(id, 8) : by;
}

const ids = / \([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)/g;
const times = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** plain writes a sentence of the API for this page: without ids, since links name them, and with clock times. */
export function plain(sentence: string): string {
  if (/^[a-z]+(_[a-z]+)+$/.test(sentence)) return reasonTitle(sentence).toLowerCase();
  return sentence.replace(ids, "").replace(times, (at) => fmt.time(at, false));
}

/** full is plain, as a whole sentence. */
export function full(sentence: string): string {
  const text = plain(sentence).trim().replace(/ which is ([A-Z]+)/, (_, status: string) => " which is " + status.toLowerCase());
  return text ? text[0]!.toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".") : "";
}

/** short is plain for a card: "waits for Migrate order history, and for 1 more". */
export const short = (sentence: string): string =>
  plain(sentence).replace(/^it waits for task "(.+)", which is [A-Z]+/s, "waits for $1").replace(/^it can't begin: it depends on task "(.+)", which/s, "depends on $1, which").replace(/^it /, "");

/** dependency takes apart what the API says about a task that another one waits for. */
export function dependency(message: string): { title: string; is: string } | null {
  const m = /^it (?:waits for|can't begin: it depends on) task "(.+)", which (.+)$/s.exec(plain(message));
  return m && { title: m[1]!, is: m[2]! };
}

const hour = 3_600_000;

/** since is the time that a relative filter such as "-7d" or "-24h" means, to the hour; another value is passed on. */
export function since(value: string | null, now: number): string | undefined {
  const m = /^-(\d{1,4})([hd])$/.exec(value ?? "");
  if (!m) return value || undefined;
  return new Date(Math.floor(now / hour - Number(m[1]) * (m[2] === "d" ? 24 : 1)) * hour).toISOString();
}
