import { signal } from "@preact/signals";
import { base, query, type Params } from "./base";
import type { Me } from "./types";

/** Problem is a refusal of the API, or what kept it from answering. */
export class Problem extends Error {
  constructor(
    readonly status: number, // 0: no answer
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly traceId: string,
    readonly body: Record<string, unknown> = {},
    readonly retryAfter = 0, // seconds that the API asks to wait; 0: it does not say
  ) {
    super(detail || title);
  }
}

/** signedOut is set when the session has ended, or the person has lost the workspace. */
export const signedOut = signal<false | "session" | "workspace">(false);

/** me is who is signed in; null until it is known. */
export const me = signal<Me | null>(null);

/** unknown is why it is not known who is signed in. */
export const unknown = signal<Error | null>(null);

let asking: Promise<void> | null = null;

/**
 * known waits until it is known who is signed in, and in which workspace. All requests of this page are
 * for that workspace, whichever another tab chooses.
 */
export function known(): Promise<void> {
  asking ??= json<Me>("GET", "/me", {}).then((who) => {
    me.value = who;
    unknown.value = null;
  }, (error: unknown) => {
    asking = null;
    unknown.value = error as Error;
    throw error;
  });
  return asking;
}

const checkEvery = 5000;
let checkedAt = -Infinity;

// check asks again who is signed in: a refusal says that what they may do has changed.
async function check(): Promise<void> {
  if (performance.now() - checkedAt < checkEvery) return;
  checkedAt = performance.now();
  try {
    me.value = await json<Me>("GET", "/me", {});
  } catch (error) {
    if (error instanceof Problem && error.status === 403) signedOut.value = "workspace";
  }
}

/** can reports whether the caller may use an operation of the API, by its operation id. */
export const can = (operation: string): boolean => me.value?.permissions?.includes(operation) ?? false;

/** decider is for whom a call that needs an approval waits. */
export const decider = (): string => (can("approve-approval") ? "you" : "an admin");

// skew is the server's time less this machine's, in milliseconds.
let skew = 0;

/** serverNow is the server's time in milliseconds since 1970. */
export const serverNow = (): number => Date.now() + skew;

/** heed learns the server's time from a response. Date has whole seconds: the middle of one is meant. */
function heed(response: Response): void {
  const at = Date.parse(response.headers.get("Date") ?? "");
  if (Number.isNaN(at)) return;
  const off = at + 500 - Date.now();
  if (Math.abs(off) > 1500) skew = off;
  else skew = 0;
}

/** url is the address of a route: url("/traces", {limit: 5}) is /api/v1/traces?limit=5. */
export const url = (path: string, params?: Params | URLSearchParams): string =>
  base + (path.startsWith("/health") || path.startsWith("/mcp") ? path.slice(1) : "api/v1" + path) + query(params);

export interface Sending {
  params?: Params | URLSearchParams;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  body?: unknown;
}

/** patience is how long a read waits for its answer to begin, in milliseconds. */
const patience = 30_000;

/** send sends a request and returns the response, unless it is a refusal: then it throws a Problem. */
export async function send(method: string, path: string, s: Sending = {}): Promise<Response> {
  if (path !== "/me") await known();
  const headers: Record<string, string> = { Accept: "application/json", ...s.headers };
  if (s.body !== undefined) headers["Content-Type"] = "application/json";
  if (method === "POST") headers["Idempotency-Key"] ??= crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const workspace = me.peek()?.workspaceId;
  if (workspace) headers["X-Workspace-Id"] ??= workspace;
  let response: Response;
  const late = method === "GET" ? new AbortController() : undefined;
  const timer = late && setTimeout(() => late.abort(), patience);
  try {
    response = await fetch(url(path, s.params), {
      method,
      headers,
      body: s.body === undefined ? undefined : JSON.stringify(s.body),
      signal: late && s.signal ? AbortSignal.any([late.signal, s.signal]) : late?.signal ?? s.signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (s.signal?.aborted) throw error;
    if (late?.signal.aborted) throw new Problem(0, "timeout", "No answer came", `Lanekeeper did not answer in ${patience / 1000} seconds. Try again a little later.`, "");
    throw new Problem(0, "unreachable", "Lanekeeper can't be reached", "The connection is lost, or the server has stopped. Try again a little later.", "");
  } finally {
    clearTimeout(timer); // a stream and a large file may take longer
  }
  heed(response);
  if (response.ok) return response;
  if (response.status === 401) signedOut.value = "session";
  if (response.status === 403 && path !== "/me" && me.peek()) void check();
  const body = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  const text = (name: string): string => (typeof body[name] === "string" ? (body[name] as string) : "");
  throw new Problem(
    response.status, text("code"), text("title") || response.statusText, fieldsOf(body) || text("detail"),
    text("traceId") || (response.headers.get("X-Trace-Id") ?? ""), body,
    Number(response.headers.get("Retry-After")) || 0,
  );
}

// fieldsOf lists what a refusal says of each field.
function fieldsOf(body: Record<string, unknown>): string {
  const of = Array.isArray(body.errors) ? (body.errors as { location?: string; message?: string }[]) : [];
  return of.map((e) => `${(e.location ?? "").replace(/^(body|query|path)\./, "")}: ${e.message ?? ""}`).join("; ");
}

async function json<T>(method: string, path: string, s: Sending): Promise<T> {
  const response = await send(method, path, s);
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** api asks the API. Paths stand below /api/v1; each call throws a Problem where it is refused. */
export const api = {
  get: <T>(path: string, params?: Params | URLSearchParams, signal?: AbortSignal) => json<T>("GET", path, { params, signal }),
  post: <T = unknown>(path: string, body?: unknown, params?: Params) => json<T>("POST", path, { body, params }),
  put: <T = unknown>(path: string, body?: unknown, params?: Params) => json<T>("PUT", path, { body, params }),
  patch: <T = unknown>(path: string, body: unknown, headers?: Record<string, string>) => json<T>("PATCH", path, { body, headers }),
  delete: <T = unknown>(path: string, params?: Params) => json<T>("DELETE", path, { params }),
};

/** curl is a command that sends the same request. The token is not in it. */
export function curl(path: string, params?: Params | URLSearchParams, method = "GET", body?: unknown): string {
  const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
  const parts = [`curl -s -H "Authorization: Bearer $LANEKEEPER_TOKEN"`];
  if (method !== "GET") parts.push("-X " + method);
  if (body !== undefined) parts.push("-H 'Content-Type: application/json' -d " + quote(JSON.stringify(body)));
  parts.push(quote(location.origin + url(path, params)));
  return parts.join(" ");
}
