import { api } from "../../app/api";
import { seg } from "../../app/base";
import { fmt } from "../../app/fmt";
import { confirm } from "../../ui/confirm";
import { form } from "../../ui/form";
import { toast } from "../../ui/toast";
import { example, type Heal, type Skill, type Switch } from "./skill";

const said = (e: unknown) => toast(e instanceof Error ? e.message : String(e));

interface Ran {
  status: string;
  output?: unknown;
  error?: string;
  traceId: string;
}

/** test makes one call of a skill by hand, with arguments that the person gives. */
export async function test(name: string): Promise<void> {
  let skill: Skill;
  try {
    skill = await api.get<Skill>(`/skills/${seg(name)}`);
  } catch (e) {
    return said(e);
  }
  const began = { at: 0 };
  const ran = await form<Ran>({
    title: `Test ${name}`,
    text: skill.effect === "read" ? "It makes one call, now. The skill changes nothing." : "It makes one call, now, and the skill may change something: this is no rehearsal.",
    fields: [{ name: "input", label: "Arguments, as JSON", type: "textarea", mono: true, value: example(skill.parameters) }],
    action: "Call it once",
    submit: (v) => {
      const input: unknown = JSON.parse(String(v.input) || "{}");
      began.at = performance.now();
      return api.post<Ran>(`/skills/${seg(name)}/run`, { input });
    },
  });
  if (!ran) return;
  const took = fmt.duration(performance.now() - began.at);
  toast(ran.status === "succeeded" ? `${name} succeeded after ${took}` : `${name} ${ran.status} after ${took}: ${ran.error ?? ""}`);
}

/** disable takes a skill out of use until a person enables it. Undo enables it again. */
export async function disable(name: string): Promise<void> {
  const answer = await confirm({
    title: `Disable ${name}?`,
    effect: "The agent is not offered it any more. Self-healing does not enable what a person disabled.",
    reason: true,
    action: "Disable",
  });
  if (!answer) return;
  try {
    await api.post(`/skills/${seg(name)}/disable`, { reason: answer.reason });
    toast(`${name} is disabled`, () => void enable(name));
  } catch (e) {
    said(e);
  }
}

export async function enable(name: string): Promise<void> {
  try {
    await api.post(`/skills/${seg(name)}/enable`, {});
    toast(`${name} is enabled`);
  } catch (e) {
    said(e);
  }
}

/** undo ends a heal: the skill, and what was disabled with it, are enabled now. */
export async function undo(heal: Heal, automations: string[]): Promise<void> {
  const both = automations.length > 0;
  const answer = await confirm({
    title: "Undo this heal?",
    effect: `${heal.skill}${both ? ` and the ${automations.length === 1 ? "automation" : "automations"} ${automations.map((a) => `“${a}”`).join(", ")}` : ""} `
      + `${both ? "are" : "is"} enabled now. After ${heal.failures} more failures in a row, self-healing disables ${both ? "them" : "it"} again.`,
    action: both ? "Enable all" : "Enable it",
    calm: true,
  });
  if (!answer) return;
  try {
    await api.post(`/heals/${heal.id}/undo`, {});
    toast(`${heal.skill} is enabled again`);
  } catch (e) {
    said(e);
  }
}

/** stop sets the kill switch of one skill. */
export async function stop(name: string): Promise<void> {
  const answer = await confirm({
    title: `Stop every call of ${name}?`,
    effect: "Calls that run are cancelled, and none is made until a person releases the switch. Runs go on without it.",
    reason: "Reason (everybody sees it)",
    action: `Stop ${name}`,
  });
  if (!answer) return;
  try {
    await api.post("/kill-switches", { scope: "skill", target: name, reason: answer.reason });
    toast(`${name} is stopped`);
  } catch (e) {
    said(e);
  }
}

/** release lets what a kill switch stopped run again. */
export async function release(s: Switch): Promise<void> {
  try {
    await api.post(`/kill-switches/${s.id}/release`, {});
    toast(`${s.target || "The workspace"} may run again`);
  } catch (e) {
    said(e);
  }
}

/** create registers a skill that some other program serves. */
export function create(): Promise<Skill | null> {
  const of = (kind: string) => (v: Record<string, unknown>) => v.kind === kind;
  const remote = (v: Record<string, unknown>) => v.kind !== "lambda";
  return form<Skill>({
    title: "New skill",
    text: "A skill is a call that agents may make. The description tells the model when to make it.",
    fields: [
      { name: "name", label: "Name", required: true, hint: "Letters, digits, - and _, such as search_tickets" },
      { name: "description", label: "Description, for the model", type: "textarea", required: true },
      { name: "kind", label: "Kind", type: "select", value: "http", options: [{ value: "http", label: "HTTP request" }, { value: "mcp", label: "Tool of an MCP server" }, { value: "lambda", label: "AWS Lambda function" }] },
      { name: "url", label: "URL", required: true, shown: remote },
      { name: "method", label: "Method", type: "select", value: "POST", options: ["POST", "GET", "PUT", "PATCH", "DELETE"].map((m) => ({ value: m, label: m })), shown: of("http") },
      { name: "tool", label: "Tool", required: true, shown: of("mcp") },
      { name: "functionName", label: "Function", required: true, shown: of("lambda") },
      { name: "parameters", label: "Parameters, as JSON Schema", type: "textarea", mono: true, value: '{"type": "object", "properties": {}}' },
      { name: "effect", label: "Effect", type: "select", value: "", options: [{ value: "", label: "By its kind" }, { value: "read", label: "It reads" }, { value: "write", label: "It changes something" }] },
      { name: "requiresApproval", label: "Each call needs a person's approval", type: "check" },
    ],
    action: "Create skill",
    submit: (v) => api.post<Skill>("/skills", {
      name: v.name, kind: v.kind, description: v.description, requiresApproval: v.requiresApproval,
      parameters: JSON.parse(String(v.parameters) || "{}"), ...(v.effect ? { effect: v.effect } : {}),
      config: v.kind === "http" ? { url: v.url, method: v.method } : v.kind === "mcp" ? { url: v.url, tool: v.tool } : { functionName: v.functionName },
    }),
  });
}
