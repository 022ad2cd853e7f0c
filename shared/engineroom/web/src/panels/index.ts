// Which panel draws which page. A panel that is not needed at first is loaded when it is opened.
import type { ComponentType } from "preact";
import type { PanelProps } from "./props";

type Loads = () => Promise<{ default: ComponentType<PanelProps> }>;

/** Entry is one page: its name, title, icon, and the letter that opens it after G. */
export interface Entry {
  page: string;
  title: string;
  icon: string;
  key?: string;
  group: "" | "Work" | "Control" | "Knowledge" | "Workspace";
  needs?: string; // the operation one must be allowed to use
  load: Loads;
}

export const entries: Entry[] = [
  { page: "overview", title: "Overview", icon: "home", key: "o", group: "", load: () => import("./overview") },
  { page: "activity", title: "Activity", icon: "pulse", key: "a", group: "", load: () => import("./activity") },
  { page: "traces", title: "Traces", icon: "trace", key: "t", group: "", load: () => import("./traces") },
  { page: "console", title: "Console", icon: "term", key: "c", group: "", load: () => import("./console") },
  { page: "tasks", title: "Tasks", icon: "task", key: "k", group: "Work", load: () => import("./tasks") },
  { page: "objectives", title: "Objectives", icon: "flag", key: "j", group: "Work", load: () => import("./objectives") },
  { page: "automations", title: "Automations", icon: "clock", key: "u", group: "Work", load: () => import("./automations") },
  { page: "agents", title: "Agents", icon: "agent", key: "g", group: "Work", load: () => import("./agents") },
  { page: "approvals", title: "Approvals", icon: "hand", key: "p", group: "Control", load: () => import("./approvals") },
  { page: "failures", title: "Failures", icon: "x", key: "f", group: "Control", needs: "list-failures", load: () => import("./failures") },
  { page: "lanes", title: "Lanes", icon: "lane", key: "l", group: "Control", load: () => import("./lanes") },
  { page: "threads", title: "Threads", icon: "chat", key: "h", group: "Control", load: () => import("./threads") },
  { page: "skills", title: "Skills", icon: "tool", key: "s", group: "Control", load: () => import("./skills") },
  { page: "spend", title: "Spend", icon: "coin", key: "d", group: "Control", load: () => import("./spend") },
  { page: "memory", title: "Memory", icon: "book", key: "m", group: "Knowledge", load: () => import("./memory") },
  { page: "webhooks", title: "Webhooks", icon: "hook", key: "w", group: "Knowledge", load: () => import("./webhooks") },
  { page: "members", title: "Members", icon: "people", group: "Workspace", load: () => import("./members") },
  { page: "keys", title: "Keys", icon: "key", group: "Workspace", load: () => import("./keys") },
  { page: "secrets", title: "Secrets", icon: "lock", group: "Workspace", needs: "list-secrets", load: () => import("./secrets") },
  { page: "settings", title: "Settings", icon: "gear", group: "Workspace", load: () => import("./settings") },
  { page: "audit", title: "Audit", icon: "list", group: "Workspace", needs: "list-audit", load: () => import("./audit") },
];
