import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { entries } from "../panels/index";
import { Icon } from "../ui/icon";
import { toast } from "../ui/toast";
import { api, can, Problem } from "./api";
import { href } from "./base";
import { single } from "./keys";
import { setZone, zone } from "./fmt";
import { overview, refresh } from "./overview";
import { go } from "./router";
import { stopOrRelease } from "./stop";
import { switchTheme } from "./theme";

interface Command {
  name: string;
  icon: string;
  hint: string;
  act: () => void;
}

const traceId = /^[a-z]{2}_[0-9a-z]{9}_[0-9a-z]{10}$/;
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

// find opens what has an id: it asks the routes of traces, executions, tasks and threads in turn.
async function find(id: string): Promise<void> {
  const places: [string, string, (found: { traceId?: string }) => string][] = [
    ["/agent-tasks/", "get-agent-task", () => href("tasks/" + id)],
    ["/executions/", "get-execution", (found) => href("traces/" + found.traceId)],
    ["/threads/", "get-thread", () => href("threads/" + id)],
    ["/approvals/", "get-approval", () => href("approvals/" + id)],
  ];
  for (const [route, , to] of places) {
    try {
      return go(to(await api.get<{ traceId?: string }>(route + id)));
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 404) break;
    }
  }
  toast("Nothing in this workspace has this id");
}

function commands(): Command[] {
  const o = overview.peek();
  const all: Command[] = entries.filter((e) => !e.needs || can(e.needs)).map((e) => ({
    name: e.title, icon: e.icon, hint: e.key ? "G then " + e.key.toUpperCase() : e.group, act: () => go(href(e.page)),
  }));
  for (const a of o?.approvals.items ?? []) all.push({ name: a.title, icon: "hand", hint: "approval", act: () => go(href("approvals/" + a.id)) });
  for (const r of o?.running ?? []) all.push({ name: r.title || r.surface, icon: "trace", hint: "runs", act: () => go(href("traces/" + r.traceId)) });
  if (can("run-heartbeat")) {
    all.push({
      name: "Run a beat now", icon: "pulse", hint: "heartbeat",
      act: () => void api.post("/heartbeat/run", {}).then(() => { toast("A beat was started"); refresh(); }, (e: Error) => toast(e.message)),
    });
  }
  if (can("set-kill-switch")) all.push({ name: o?.stop ? "Release the stop" : "Stop everything", icon: "stop", hint: "kill switch", act: () => void stopOrRelease() });
  all.push({ name: "Switch theme", icon: "theme", hint: "light or dark", act: switchTheme });
  for (const z of ["local", "UTC"]) {
    if (zone.value !== z) all.push({ name: "Times in " + (z === "local" ? "local time" : z), icon: "clock", hint: "time zone", act: () => setZone(z) });
  }
  all.push({ name: single.on ? "Switch single keys off" : "Switch single keys on", icon: "menu", hint: "keyboard", act: () => { single.set(!single.on); toast(single.on ? "Single keys are on" : "Single keys are off"); } });
  return all;
}

const help: [string, string][] = [
  ["Ctrl or ⌘ K", "Commands"], ["G then a letter", "Open a page"], ["/", "Search"], ["J  K", "Next, previous"], ["Enter", "Open"],
  ["Esc", "Close"], ["X", "Select"], ["[", "Fold the navigation"], ["C", "Create"], [".", "To the actions of a row"], ["A  E  R", "Approve, edit, reject (in Approvals)"], ["?", "This list"],
];

/** Palette is the command palette, or the list of keys. */
export default function Palette({ help: asHelp, onClose }: { help: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  useLayoutEffect(() => { // before a key can miss it
    const before = document.activeElement;
    dialog.current!.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const known = useMemo(commands, []);
  const wanted = text.trim().toLowerCase();
  const found = useMemo(() => {
    const list = known.filter((c) => wanted.split(/\s+/).every((w) => (c.name + " " + c.hint).toLowerCase().includes(w)));
    if (traceId.test(wanted)) list.unshift({ name: wanted, icon: "trace", hint: "open this trace", act: () => go(href("traces/" + wanted)) });
    else if (uuid.test(wanted)) list.unshift({ name: wanted, icon: "search", hint: "open what has this id", act: () => void find(wanted) });
    else if (wanted.length > 1) list.push({ name: `Search activity for “${text.trim()}”`, icon: "search", hint: "Activity", act: () => go(href("activity", { q: text.trim() })) });
    return list.slice(0, 40);
  }, [wanted]);
  const run = (c: Command | undefined): void => {
    dialog.current!.close();
    onClose();
    c?.act();
  };
  useEffect(() => {
    dialog.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at, wanted]);
  const frame = { onCancel: (e: Event) => { e.preventDefault(); run(undefined); }, onClick: (e: Event) => { if (e.target === dialog.current) run(undefined); } };
  if (asHelp) {
    return (
      <dialog ref={dialog} class="help" aria-labelledby="help-title" {...frame}>
        <div class="dlg"><h2 id="help-title">Keys</h2>
          <dl>{help.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
          <div class="foot"><button type="button" class="btn" onClick={() => run(undefined)}>Close</button></div>
        </div>
      </dialog>
    );
  }
  return (
    <dialog ref={dialog} class="pal" aria-label="Commands" {...frame}>
      <input role="combobox" aria-expanded="true" aria-controls="pal-list" aria-activedescendant={found[at] ? "pal-" + at : undefined} aria-label="Command" autoFocus
        placeholder="Go to, do, or paste an id" value={text} spellcheck={false} autocomplete="off"
        onInput={(e) => { setText(e.currentTarget.value); setAt(0); }}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown") { e.preventDefault(); setAt(Math.min(at + 1, found.length - 1)); }
          else if (e.key === "ArrowUp") { e.preventDefault(); setAt(Math.max(at - 1, 0)); }
          else if (e.key === "Enter") { e.preventDefault(); if (found[at]) run(found[at]); }
        }} />
      <ul role="listbox" id="pal-list" aria-label="Commands">
        {found.map((c, i) => (
          <li role="option" id={"pal-" + i} key={c.icon + c.name} aria-selected={i === at} onClick={() => run(c)} onPointerMove={() => i !== at && setAt(i)}>
            <Icon name={c.icon} /><span class="trunc">{c.name}</span><small>{c.hint}</small>
          </li>
        ))}
      </ul>
      {!found.length && <p class="none">Nothing matches</p>}
    </dialog>
  );
}
