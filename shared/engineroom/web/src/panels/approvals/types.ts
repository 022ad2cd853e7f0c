import type { ApprovalItem } from "../../app/api.gen";

/** Approval is a call that waits, or has waited, for a person's decision. */
export type Approval = ApprovalItem;

export type Input = Record<string, unknown>;

/** objectOf is a value as named arguments, or null where it is none. */
export const objectOf = (value: unknown): Input | null =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Input) : null;

/** titleOf is what the call would do, in one line. */
export const titleOf = (a: Approval): string => a.title || a.skill.replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase());

/** statusOf is the status as it is shown: a call that failed was not simply executed. */
export const statusOf = (a: Approval): string => (a.status === "executed" && a.error ? "call_failed" : a.status);

/** same reports whether two values are equal as JSON, whatever the order of their keys. */
export const same = (a: unknown, b: unknown): boolean => sorted(a) === sorted(b);

const sorted = (value: unknown): string =>
  JSON.stringify(value, (_, v: unknown) => {
    const o = objectOf(v);
    return o ? Object.fromEntries(Object.entries(o).sort(([x], [y]) => (x < y ? -1 : 1))) : v;
  }) ?? "";
