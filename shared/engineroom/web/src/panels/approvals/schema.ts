// What a skill's parameters, a JSON Schema, say about one argument. The server checks everything again;
// this tells a person before the call is approved.

import { objectOf } from "./types";

export interface Schema {
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  enum?: unknown[];
  const?: unknown;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minItems?: number;
  maxItems?: number;
  items?: Schema;
  additionalProperties?: boolean | Schema;
}

/** Control is how an argument is edited. */
export type Control = "text" | "long" | "number" | "boolean" | "choice" | "json";

const typesOf = (s: Schema | undefined): string[] => (s?.type === undefined ? [] : Array.isArray(s.type) ? s.type : [s.type]);

const typeOf = (v: unknown): string =>
  v === null ? "null" : Array.isArray(v) ? "array" : typeof v === "number" ? (Number.isInteger(v) ? "integer" : "number") : typeof v;

/** controlOf chooses how an argument is edited, by its schema, else by its value. */
export function controlOf(s: Schema | undefined, value: unknown): Control {
  if (s?.enum) return "choice";
  const types = typesOf(s).filter((t) => t !== "null");
  const type = types.length === 1 ? types[0] : types.length ? "json" : typeOf(value);
  switch (type) {
    case "string":
      return (typeof value === "string" && (value.length > 40 || value.includes("\n"))) || (s?.maxLength ?? 0) > 500 ? "long" : "text";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
  }
  return "json";
}

/** written is a value as the text of its control. */
export function written(control: Control, value: unknown): string {
  if (value === undefined) return "";
  if (control === "json" || (control === "choice" && typeof value !== "string")) return JSON.stringify(value, null, control === "json" ? 2 : 0);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Unreadable is what an argument's text is where it is no value of its kind. */
class Unreadable extends Error {}

/** parsed is the value that a text means. An empty text of an argument that need not be there is none. */
export function parsed(control: Control, text: string, s: Schema | undefined, optional: boolean): unknown {
  if (control === "text" || control === "long") return text === "" && optional && !typesOf(s).includes("string") ? undefined : text;
  if (text.trim() === "") {
    if (optional) return undefined;
    throw new Unreadable("A value is needed.");
  }
  switch (control) {
    case "number": {
      const n = Number(text.trim());
      if (!Number.isFinite(n)) throw new Unreadable("Write a number.");
      return n;
    }
    case "boolean":
      return text === "true";
    case "choice":
      return s?.enum?.find((v) => written("choice", v) === text) ?? text;
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new Unreadable("This is not JSON.");
  }
}

/** check says what is wrong with a value, or "". */
export function check(s: Schema | undefined, v: unknown): string {
  if (!s || v === undefined) return "";
  const types = typesOf(s);
  const type = typeOf(v);
  if (types.length && !types.includes(type) && !(type === "integer" && types.includes("number"))) return `Expected ${types.join(" or ")}.`;
  if (s.enum && !s.enum.some((e) => JSON.stringify(e) === JSON.stringify(v))) return "Expected one of " + s.enum.map((e) => written("choice", e)).join(", ") + ".";
  if (typeof v === "string") {
    const length = [...v].length;
    if (s.minLength !== undefined && length < s.minLength) return s.minLength === 1 ? "A text is needed." : `Expected at least ${s.minLength} characters.`;
    if (s.maxLength !== undefined && length > s.maxLength) return `Expected at most ${s.maxLength} characters; these are ${length}.`;
    if (s.pattern !== undefined && !matches(s.pattern, v)) return `Expected the form ${s.pattern}.`;
  }
  if (typeof v === "number") {
    if (s.minimum !== undefined && v < s.minimum) return `Expected at least ${s.minimum}.`;
    if (s.maximum !== undefined && v > s.maximum) return `Expected at most ${s.maximum}.`;
    if (s.exclusiveMinimum !== undefined && v <= s.exclusiveMinimum) return `Expected more than ${s.exclusiveMinimum}.`;
    if (s.exclusiveMaximum !== undefined && v >= s.exclusiveMaximum) return `Expected less than ${s.exclusiveMaximum}.`;
  }
  if (Array.isArray(v)) {
    if (s.minItems !== undefined && v.length < s.minItems) return `Expected at least ${s.minItems} items.`;
    if (s.maxItems !== undefined && v.length > s.maxItems) return `Expected at most ${s.maxItems} items.`;
    for (const [i, item] of v.entries()) {
      const wrong = check(s.items, item);
      if (wrong) return `Item ${i + 1}: ${wrong}`;
    }
  }
  const o = objectOf(v);
  if (o) {
    const missing = (s.required ?? []).filter((name) => o[name] === undefined);
    if (missing.length) return `Missing: ${missing.join(", ")}.`;
    for (const [name, part] of Object.entries(s.properties ?? {})) {
      const wrong = check(part, o[name]);
      if (wrong) return `${name}: ${wrong}`;
    }
  }
  return "";
}

// A pattern that this browser does not know is left to the server.
function matches(pattern: string, text: string): boolean {
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true;
  }
}
