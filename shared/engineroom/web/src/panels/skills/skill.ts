// Health is how a skill did in the last days.
import type { AutomationItem, CallsOfDay, HealItem, SkillItem, SkillsHealthItem, SwitchItem } from "../../app/api.gen";

export type Health = SkillsHealthItem;

export type Day = CallsOfDay;

export type Skill = SkillItem;

export type Heal = HealItem;

export type Switch = SwitchItem;

export type Automation = AutomationItem;

// causes says what the errors of a class mean.
export const causes: Record<string, string> = {
  theirs: "The service that it calls failed", ours: "Its configuration or Lanekeeper itself is at fault", input: "The agent's arguments were refused",
  rate_limit: "It was called too often", policy: "The call is not allowed",
};

// statusOf is the status of a skill as the status table knows it.
export const statusOf = (h: Health) => (h.enabled ? "enabled" : h.disabledBy === "self_healing" ? "self_healing" : "disabled");

// example fills a JSON Schema's required properties in, as a start for a test call.
export function example(schema: unknown): string {
  const s = schema as { properties?: Record<string, { type?: string; default?: unknown; enum?: unknown[] }>; required?: string[] } | null;
  const of: Record<string, unknown> = {};
  for (const name of s?.required ?? []) {
    const p = s?.properties?.[name];
    of[name] = p?.default ?? p?.enum?.[0] ?? (p?.type === "number" || p?.type === "integer" ? 0 : p?.type === "boolean" ? false : p?.type === "array" ? [] : p?.type === "object" ? {} : "");
  }
  return JSON.stringify(of, null, 2);
}
