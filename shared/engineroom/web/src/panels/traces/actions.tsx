import { api, Problem } from "../../app/api";
import { href } from "../../app/base";
import { go } from "../../app/router";
import { confirm } from "../../ui/confirm";
import { toast } from "../../ui/toast";

const told = (error: unknown): void => toast(error instanceof Problem ? error.message : "That did not work");

/** cancel ends an execution at its next step, after a question. */
export async function cancel(execution: string, name: string): Promise<void> {
  const yes = await confirm({ title: `Cancel ${name}?`, action: "Cancel run", effect: <p>It ends at its next step. What it did stays; its lanes and threads become free.</p> });
  if (!yes) return;
  try {
    await api.post(`/executions/${execution}/cancel`, {});
    toast("It ends at its next step");
  } catch (error) {
    told(error);
  }
}

/** fork goes on from a step in another way, and opens the new trace. */
export async function fork(trace: string, execution: string, step: number): Promise<void> {
  const yes = await confirm({
    title: `Fork from step ${step}?`, action: "Fork", calm: true, reason: "Message to go on with", optional: true,
    effect: <p>A new run starts with what stands before this step. No finished call is made again.</p>,
  });
  if (!yes) return;
  try {
    const made = await api.post<{ traceId: string; executionId: string }>(`/traces/${trace}/fork`, { step, executionId: execution, ...(yes.reason ? { edits: { message: yes.reason } } : {}) });
    toast("The fork runs");
    if (made?.traceId) go(href("traces/" + made.traceId, { span: made.executionId }));
  } catch (error) {
    told(error);
  }
}

export interface Replayed {
  executions: {
    executionId: string;
    steps: { step: number; recorded: Said; replayed: Said; same: boolean; differs: string[] }[];
    usage: { totalTokens: number };
  }[];
  differences: number;
}

export interface Said {
  text: string;
  calls: { name: string; arguments: string }[];
  model: string;
}

/** replay asks the model anew for each recorded step, after a question. */
export async function replay(trace: string): Promise<Replayed | null> {
  const yes = await confirm({ title: "Replay this trace?", action: "Replay", calm: true, effect: <p>The model is asked again for each recorded step, which costs tokens. No skill is called, and nothing is changed.</p> });
  if (!yes) return null;
  try {
    return await api.post<Replayed>(`/traces/${trace}/replay`, {});
  } catch (error) {
    told(error);
    return null;
  }
}
