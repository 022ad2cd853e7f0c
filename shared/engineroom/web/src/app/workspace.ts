import { toast } from "../ui/toast";
import { me, Problem, send } from "./api";
import { href } from "./base";
import { mayLeave } from "./router";
import type { Me } from "./types";

/** others are the workspaces of the person but for the one that this page shows. */
export const others = (): Me["workspaces"] => me.value?.workspaces?.filter((w) => w.id !== me.value!.workspaceId) ?? [];

/** choose goes on with the session in another workspace, at an address. */
export async function choose(id: string, to = href("overview")): Promise<void> {
  if (!(await mayLeave())) return;
  try {
    await send("PUT", "/session", { body: { workspaceId: id }, headers: { "X-Workspace-Id": id } }); // this one may be lost
    location.assign(to);
  } catch (error) {
    toast(error instanceof Problem ? error.message : "That did not work");
  }
}
