// Health is how a skill did in the last days.
export interface Health {
  skill: string;
  kind: string;
  scope: string;
  effect: string;
  enabled: boolean;
  disabledBy?: string | null;
  reason?: string | null;
  calls: number;
  failed: number;
  successRate?: number | null;
  p50Ms?: number | null;
  p95Ms?: number | null;
  streak: number;
  lastError?: string | null;
  lastAt?: string | null;
  series: Day[];
  heal?: { id: string; at: string; reason: string; status: string } | null;
}

export interface Day {
  day: string;
  calls: number;
  failed: number;
}

export interface Skill {
  id: string;
  name: string;
  description: string;
  parameters: unknown;
  kind: string;
  scope: string;
  effect: string;
  requiresApproval: boolean;
  timeoutSeconds: number | null;
  serial: boolean;
  enabled: boolean;
  config?: unknown;
}

export interface Heal {
  id: string;
  skill: string;
  code: string;
  failures: number;
  automations: string[];
  status: string;
  probeAt?: string;
  traceId: string;
  createdAt: string;
}

export interface Switch {
  id: string;
  scope: string;
  target?: string;
  reason?: string;
  active: boolean;
  setBy: string;
  setAt: string;
}

export interface Automation {
  id: string;
  name: string;
}

// whose says whose fault the errors of a class are.
export const whose: Record<string, string> = {
  theirs: "theirs", ours: "ours", input: "in what the agent gave it", rate_limit: "a rate limit", policy: "a refusal by policy",
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
