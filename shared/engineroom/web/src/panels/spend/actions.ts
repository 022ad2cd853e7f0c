import { api, fmt, toast } from "../../ui";
import { form } from "../../ui/form";
import { type Budget, nameOf } from "./budget";

const iso = (day: unknown) => new Date(`${String(day)}T00:00:00Z`).toISOString();
const scopes = [["global", "The workspace"], ["agent", "An agent"], ["project", "A project"], ["milestone", "A milestone"], ["task", "A task"], ["skill", "A skill"]] as const;

/** create makes a budget of the present month, or of another period. */
export async function create(now: number): Promise<void> {
  const d = new Date(now);
  const month = (n: number) => new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth() + n, 1)).toISOString().slice(0, 10);
  const made = await form<Budget>({
    title: "New budget",
    text: "What is at work is reserved before it starts. At 90 % people are warned, at 100 % work pauses. The period repeats by itself.",
    fields: [
      { name: "scope", label: "Of what", type: "select", value: "global", options: scopes.map(([value, label]) => ({ value, label })) },
      { name: "scopeId", label: "Which one", required: true, hint: "The name of the agent, the id of the others. flowpilot:hb are the beats of flowpilot.", shown: (v) => v.scope !== "global" },
      { name: "allocated", label: "Tokens", type: "number", required: true, value: 1_000_000 },
      { name: "dollars", label: "Dollars (optional)", type: "number", hint: "Left empty, money has no bound of its own." },
      { name: "from", label: "From (UTC)", type: "date", required: true, value: month(0) },
      { name: "to", label: "Until (UTC)", type: "date", required: true, value: month(1) },
    ],
    action: "Create budget",
    submit: (v) => api.post<Budget>("/budgets", {
      scope: v.scope, ...(v.scope !== "global" ? { scopeId: v.scopeId } : {}), allocated: Number(v.allocated),
      ...(v.dollars !== "" ? { allocatedMicroUsd: Math.round(Number(v.dollars) * 1e6) } : {}), periodStart: iso(v.from), periodEnd: iso(v.to),
    }),
  });
  if (made) toast(`The budget has ${fmt.tokens(made.allocated)} tokens`);
}

/** change gives a budget more tokens or fewer, and more money or less where that is bounded. */
export async function change(b: Budget): Promise<void> {
  const cap = b.allocatedMicroUsd;
  const used = cap == null ? "" : `, and ${fmt.money(b.consumedMicroUsd)}`;
  const done = await form<Budget>({
    title: `Change the budget: ${nameOf(b)}`,
    text: `${fmt.tokens(b.consumed)} tokens are used${used}, and ${fmt.tokens(b.reserved)} tokens reserved in this period. It can't have less than is used. Recorded under your name.`,
    fields: [
      { name: "allocated", label: "Tokens a period", type: "number", required: true, value: b.allocated },
      ...(cap == null ? [] : [{ name: "dollars", label: "Dollars a period", type: "number" as const, required: true, value: cap / 1e6 }]),
    ],
    action: "Change",
    submit: (v) => api.patch<Budget>(`/budgets/${b.id}`, { allocated: Number(v.allocated), ...(cap == null ? {} : { allocatedMicroUsd: Math.round(Number(v.dollars) * 1e6) }) }),
  });
  if (done) toast(`${nameOf(b)} has ${fmt.tokens(done.allocated)} tokens now`);
}

/** reallocate moves tokens from one budget to another. */
export async function reallocate(budgets: Budget[], to?: Budget): Promise<void> {
  const options = budgets.map((b) => ({ value: b.id, label: `${nameOf(b)}: ${fmt.tokens(Math.max(0, b.remaining))} left` }));
  const from = budgets.find((b) => b.id !== to?.id && b.remaining > 0) ?? budgets.find((b) => b.id !== to?.id);
  const moved = await form<unknown>({
    title: "Move tokens between budgets",
    text: "Only tokens that are neither used nor reserved move. Both budgets change at once, under your name.",
    fields: [
      { name: "from", label: "From", type: "select", value: from?.id ?? "", options },
      { name: "to", label: "To", type: "select", value: to?.id ?? budgets.find((b) => b.id !== from?.id)?.id ?? "", options },
      { name: "amount", label: "Tokens", type: "number", required: true },
    ],
    action: "Move tokens",
    submit: (v) => api.post("/budgets/reallocate", { from: v.from, to: v.to, amount: Number(v.amount) }),
  });
  if (moved) toast("The tokens have moved");
}
