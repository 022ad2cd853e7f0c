// base is the path of the stage that everything is served below: "/" or "/prod/".
const relative = document.querySelector<HTMLMetaElement>("meta[name=lk-base]")?.content || "/";
export const base = new URL(relative, location.href).pathname;

/** root is the path below which the pages are: "/engine/". */
export const root = base + "engine/";

export type Params = Record<string, string | number | boolean | null | undefined>;

/** query writes parameters as a query with its "?"; empty ones are left out. */
export function query(params?: Params | URLSearchParams): string {
  const q = new URLSearchParams();
  const entries = params instanceof URLSearchParams ? [...params.entries()] : Object.entries(params ?? {});
  for (const [name, value] of entries) {
    if (value !== undefined && value !== null && value !== "" && value !== false) q.set(name, String(value));
  }
  const text = q.toString();
  return text && "?" + text;
}

/** href is the address of a page: href("traces/" + id, {span: 3}). */
export const href = (page: string, params?: Params | URLSearchParams): string => root + page + query(params);

/** seg makes a value a segment of a path. */
export const seg = (value: string): string => encodeURIComponent(value);
