import { confirm } from "../ui/confirm";
import { toast } from "../ui/toast";
import { api, me, Problem } from "./api";
import { overview, refresh } from "./overview";

/** stopOrRelease asks for the kill switch of the workspace, or releases it. */
export async function stopOrRelease(): Promise<void> {
  const stop = overview.peek()?.stop;
  try {
    if (stop) {
      const yes = await confirm({
        title: "Release the stop?", calm: true, action: "Release",
        effect: <p>It was stopped by {stop.by}: {stop.reason}. What was parked goes on, and beats run again.</p>,
      });
      if (!yes) return;
      await api.post(`/kill-switches/${stop.id}/release`);
      toast("Released");
    } else {
      const here = me.peek();
      const slug = here?.workspaces?.find((w) => w.id === here.workspaceId)?.slug;
      const yes = await confirm({
        title: "Stop everything in this workspace?", action: "Stop everything", reason: "Reason (everybody sees it)", typed: slug,
        effect: <p>Each run ends at its next step and keeps what it did. Nothing starts until a person releases the switch.</p>,
      });
      if (!yes) return;
      await api.post("/kill-switches", { scope: "workspace", reason: yes.reason });
      toast("Stopped");
    }
    refresh();
  } catch (error) {
    toast(error instanceof Problem ? error.message : "That did not work");
  }
}
