import { useEffect, useState } from "preact/hooks";
import { api, go, href, seg, toast, type Page } from "../../ui";
import { FieldsDialog, type Field, type Values } from "../../ui/fields";
import type { Task } from "./types";

const patchable = ["title", "description", "priority", "tags", "maxRetries"];

/** TaskForm creates a task, or changes one. */
export function TaskForm({ task, onClose, onDone }: { task?: Task; onClose: () => void; onDone?: () => void }) {
  const [projects, setProjects] = useState<{ id: string; name: string }[] | null>(task ? [] : null);
  const [open, setOpen] = useState<Task[]>([]);
  useEffect(() => {
    if (task) return;
    void Promise.all([
      api.get<Page<{ id: string; name: string }>>("/projects", { limit: 200 }).then((p) => p.items, () => []),
      api.get<Page<Task>>("/agent-tasks", { limit: 200 }).then((p) => p.items, () => []),
    ]).then(([p, t]) => {
      setProjects(p);
      setOpen(t);
    });
  }, []);
  if (projects === null) return null;

  const fields: Field[] = [
    { name: "title", label: "Title", required: true, maxLength: 255, value: task?.title },
    { name: "description", label: "Description", kind: "area", maxLength: 16000, value: task?.description },
    { name: "priority", label: "Priority", kind: "number", required: true, min: 1, max: 10, value: task?.priority ?? 5, hint: "10 comes first" },
    { name: "tags", label: "Tags", kind: "tags", value: task?.tags, hint: "With commas between" },
    { name: "maxRetries", label: "Retries at most", kind: "number", min: 0, max: 100, value: task?.maxRetries, more: !task },
  ];
  if (!task) {
    fields.splice(3, 0, { name: "dependsOn", label: "Waits for", kind: "tags", suggestions: open.map((t) => t.title), hint: "Titles or ids of tasks that must be completed first, with commas between", more: false });
    fields.push(
      { name: "taskType", label: "Type", maxLength: 100, more: true },
      { name: "capabilities", label: "Capabilities that the agent needs", kind: "tags", more: true, at: "body.metadata", hint: "With commas between" },
      { name: "estimatedDurationMinutes", label: "Expected minutes", kind: "number", min: 1, more: true },
      { name: "inputContext", label: "Input", kind: "json", more: true, hint: "An object for the agent. A secret stands in it as {\"$secret\": name}" },
    );
    if (projects.length) fields.push({ name: "projectId", label: "Project", kind: "select", more: true, options: [["", "None"], ...projects.map((p) => [p.id, p.name] as const)] });
  }

  const submit = async (v: Values): Promise<void> => {
    if (task) {
      const body: Values = {};
      for (const name of patchable) {
        const value = v[name] ?? (name === "description" ? "" : undefined);
        if (value !== undefined && JSON.stringify(value) !== JSON.stringify((task as unknown as Values)[name] ?? "")) body[name] = value;
      }
      if (Object.keys(body).length) await api.patch("/agent-tasks/" + seg(task.id), body);
      toast(`Saved: ${v.title as string}`);
      onDone?.();
      return;
    }
    const { capabilities, dependsOn, projectId, ...rest } = v;
    const body: Values = { ...rest, projectId: projectId || undefined };
    if ((capabilities as string[]).length) body.metadata = { requiredCapabilities: capabilities };
    // A title stands for the latest task that has it; what is none is sent as it is, and refused there.
    if ((dependsOn as string[]).length) body.dependsOn = (dependsOn as string[]).map((d) => open.find((t) => t.title === d)?.id ?? d);
    const made = await api.post<Task>("/agent-tasks", body);
    toast(`Created: ${made.title}`);
    onDone?.();
    go(href("tasks/" + seg(made.id)));
  };
  return (
    <FieldsDialog title={task ? `Edit “${task.title}”` : "New task"} action={task ? "Save" : "Create task"} fields={fields} submit={submit} onClose={onClose} />
  );
}
