import { useSignal } from "@preact/signals";
import { type ComponentType } from "preact";
import { useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "preact/hooks";
import { entries } from "../panels/index";
import type { PanelProps } from "../panels/props";
import { Confirming } from "../ui/confirm";
import { Glyph, Icon } from "../ui/icon";
import { Countdown } from "../ui/marks";
import { Failed, Loading, NotAllowed } from "../ui/states";
import { Toasts } from "../ui/toast";
import { api, can, decider, known as who, me, serverNow, signedOut, unknown } from "./api";
import { base, href, root } from "./base";
import { fmt, second } from "./fmt";
import { single, useKeys } from "./keys";
import { connection, retryNow } from "./live";
import { overview, overviewFailed, refresh } from "./overview";
import { go, moved, place, restored } from "./router";
import { stopOrRelease } from "./stop";
import { choose, others } from "./workspace";
import { switchTheme, theme } from "./theme";
import failedIcon from "../icons/failed.svg";
import idleIcon from "../icons/idle.svg";
import workingIcon from "../icons/working.svg";
import type { Tone } from "../ui/status";

const states: Record<string, [Tone, string, string, string]> = {
  working: ["active", "Working", "◐ ", workingIcon],
  idle: ["queued", "Idle", "", idleIcon],
  stopped: ["failed", "Stopped", "■ ", failedIcon],
  not_working: ["failed", "Not working", "▲ ", failedIcon],
};

function Header({ palette }: { palette: () => void }) {
  const o = overview.value;
  void second.value;
  const [tone, word] = o ? states[o.state] ?? states.idle! : (["quiet", "…"] as [Tone, string]);
  const stop = o?.stop;
  const cap = o?.today.capMicroUsd ? o.today.cappedMicroUsd / o.today.capMicroUsd : o?.today.capTokens ? o.today.cappedTokens / o.today.capTokens : null;
  const mayStop = can("set-kill-switch");
  const late = o?.beat.nextAt && +new Date(o.beat.nextAt) < serverNow();
  return (
    <header class="top" aria-label="State">
      <a class="cell state" href={href("overview")}>
        <Glyph tone={tone} /><b>{stop ? "Stopped" : word}</b>
        <span class="t">{stop ? `by ${stop.by}: ${stop.reason}` : o?.object?.title ?? ""}</span>
      </a>
      <div class="strip2">
        <a class="cell" href={href("activity", { surface: "heartbeat" })}>
          <span class="lbl">{o?.beat.running ? "Beat" : "Next beat"}</span><span class="short">Beat</span>{" "}
          <b>{!o ? "–" : o.beat.running ? o.beat.phase ?? "runs" : o.beat.nextAt && !stop ? (late ? "due" : <><span class="roomy">in </span><Countdown to={o.beat.nextAt} /></>) : "–"}</b>
        </a>
        <a class="cell" href={href("spend")} title={o?.today.capTokens && !o.today.capMicroUsd ? `${fmt.tokens(o.today.cappedTokens)} of ${fmt.tokens(o.today.capTokens)} tokens` : undefined}>
          <span class="lbl">Today</span> <b>{fmt.money(o?.today.microUsd)}</b>
          {cap !== null && (
            <><span class={"meter " + (cap >= 1 ? "failed" : cap > 0.9 ? "warn" : "")} role="img" aria-label={`${Math.round(cap * 100)} % of the day's cap`}><i style={{ width: Math.min(100, cap * 100) + "%" }} /></span>
              <span class="lbl">{o!.today.capMicroUsd ? fmt.money(o!.today.capMicroUsd) : Math.round(cap * 100) + " %"}</span></>
          )}
        </a>
        <a class="cell" href={href("failures")}>
          <Glyph tone={o?.failures.count ? "failed" : "quiet"} /><b>{o?.failures.count ?? "–"}</b> <span class="lbl">{o?.failures.count === 1 ? "failure" : "failures"}</span><span class="sr"> open</span>
        </a>
        <a class="cell" href={href("approvals")}>
          <Glyph tone={o?.approvals.count ? "person" : "quiet"} /><b>{o?.approvals.count ?? "–"}</b> <span class="lbl">{o?.approvals.count === 1 ? "approval" : "approvals"}</span><span class="sr"> waiting</span>
        </a>
      </div>
      <div class="end">
        <Connected />
        <button type="button" class="btn ghost only-wide" onClick={palette}><Icon name="search" /><span class="sr">Commands</span><kbd class="roomy">{/Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K"}</kbd></button>
        <button type="button" class="btn ghost icon only-wide" onClick={switchTheme} aria-label={theme.value === "dark" ? "Light theme" : "Dark theme"}><Icon name="theme" /></button>
        {mayStop && <button type="button" class={"btn stop " + (stop ? "primary" : "danger")} onClick={() => void stopOrRelease()}>{stop ? "Release" : <><Icon name="stop" />Stop</>}</button>}
      </div>
    </header>
  );
}

function Connected() {
  const c = connection.value;
  if (c.mode === "stale" || overviewFailed.value) return <span class="live off">Not live</span>;
  return <span class={"live " + c.mode}>{c.mode === "live" ? "Live" : c.mode === "polling" ? "Polling" : "Connecting"}</span>;
}

function Stale() {
  const c = connection.value;
  const [, tick] = useState(0);
  useEffect(() => {
    if (c.mode !== "stale") return;
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [c.mode]);
  const failed = overviewFailed.value;
  if (c.mode !== "stale" && failed && overview.value) {
    return (
      <div class="stale" role="status">The state at the top may be old: {failed.message}
        <button type="button" class="btn sm" onClick={refresh}>Try now</button>
      </div>
    );
  }
  if (c.mode !== "stale") return null;
  const left = Math.max(0, Math.ceil((c.retryAt - Date.now()) / 1000));
  return (
    <div class="stale" role="status">Not live since {fmt.clock(serverNow() - (Date.now() - c.since))}.<span aria-hidden="true">{left ? ` Next try in ${left} s.` : " Trying …"}</span>
      <button type="button" class="btn sm" onClick={retryNow}>Try now</button>
    </div>
  );
}

const count = (page: string): [number, "failed" | "person"] | null => {
  const o = overview.value;
  if (page === "tasks" && o?.tasks.failed) return [o.tasks.failed, "failed"];
  if (page === "failures" && o?.failures.count) return [o.failures.count, "failed"];
  if (page === "approvals" && o?.approvals.count) return [o.approvals.count, "person"];
  return null;
};

function Nav({ open, shut }: { open: boolean; shut: () => void }) {
  const here = place.value.page;
  const groups = ["", "Work", "Control", "Knowledge"] as const;
  return (
    <aside class={"side" + (open ? " open" : "")} aria-label="Navigation">
      <a class="brand" href={href("overview")} aria-label="Lanekeeper: Overview">
        <svg viewBox="0 0 18 18" aria-hidden="true"><path d="M3 2v14M15 2v14" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" /><path class="mid" d="M9 2v3M9 7.5v3M9 13v3" stroke-width="2.2" stroke-linecap="round" /></svg>
        <span>Lanekeeper</span>
      </a>
      <nav class="nav" aria-label="Pages" onClick={shut}>
        {groups.map((group) => (
          <div key={group} role="presentation">
            {group && <p class="grp-name">{group}</p>}
            {entries.filter((e) => e.group === group && (!e.needs || can(e.needs))).map((e) => {
              const n = count(e.page);
              return (
                <a key={e.page} href={href(e.page)} title={e.title} aria-current={e.page === here ? "page" : undefined}>
                  <Icon name={e.icon} /><span>{e.title}</span>
                  {n && <span class={"n " + n[1]}>{n[0]}<span class="sr"> {n[1] === "person" ? "wait for " + decider() : "failed"}</span></span>}
                </a>
              );
            })}
          </div>
        ))}
      </nav>
      <Workspace />
    </aside>
  );
}

const letter = (name: string): string => (name.trim()[0] ?? "?").toLowerCase();

/** Demo says that the workspace is the demo's, and whether what its agents ask is a script. */
function Demo() {
  const who = me.value;
  const here = who?.workspaces?.find((w) => w.id === who.workspaceId);
  if (!here?.demo) return null;
  const own = who!.workspaces.find((w) => !w.demo);
  return (
    <p class="demo">
      <span><b>This is a demo.</b> {here.script ? "The shop does not exist, and its model is a script." : "The shop does not exist, but its agents ask a language model."} <code>bin/lanekeeper demo remove</code> removes it.</span>
      {own && <button type="button" class="btn sm" onClick={() => void choose(own.id)}>Go to {own.name}</button>}
    </p>
  );
}

/** Workspace is who one is and where, and a menu of the workspace's pages. */
function Workspace() {
  const who = me.value;
  const [open, set] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const away = (e: Event): void => {
      if (!box.current?.contains(e.target as Node)) set(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const leave = async (): Promise<void> => {
    try {
      await api.delete("/session");
    } finally {
      location.assign(base + "sign-in");
    }
  };
  const name = who?.name || who?.email || who?.id || "…";
  const role = who?.role ? who.role[0] + who.role.slice(1).toLowerCase() : "";
  const here = who?.workspaces?.find((w) => w.id === who.workspaceId);
  const active = entries.some((e) => e.group === "Workspace" && e.page === place.value.page);
  return (
    <div class={"who" + (active ? " on" : "")} ref={box} onKeyDown={(e) => { if (e.key === "Escape" && open) { e.stopPropagation(); set(false); box.current?.querySelector("button")?.focus(); } }}>
      <button type="button" class="who-b" aria-haspopup="true" aria-expanded={open} onClick={() => set(!open)}>
        <span class="sr">Workspace menu: </span>
        <span class="av" aria-hidden="true">{letter(name)}</span>
        <span class="trunc name"><b class="trunc">{name}</b>{role && <small>{role}</small>}</span>
        {here && <span class="tag">{here.slug}</span>}
      </button>
      {open && (
        <div class="menu-items up enter" role="group" aria-label="Workspace">
          {(who?.workspaces?.length ?? 0) > 1 && who!.workspaces!.map((w) => (
            <button type="button" key={w.id} aria-current={w.id === who!.workspaceId || undefined} onClick={() => void choose(w.id)}>{w.name}<small>{w.role?.toLowerCase()}</small></button>
          ))}
          {entries.filter((e) => e.group === "Workspace" && (!e.needs || can(e.needs))).map((e) => (
            <a key={e.page} href={href(e.page)} onClick={() => set(false)}><Icon name={e.icon} />{e.title}</a>
          ))}
          <a href={base + "docs"}><Icon name="book" />API description</a>
          <button type="button" onClick={switchTheme}><Icon name="theme" />{theme.value === "dark" ? "Light theme" : "Dark theme"}</button>
          <button type="button" onClick={() => void leave()}><Icon name="out" />Sign out</button>
        </div>
      )}
    </div>
  );
}

function TabBar({ more, isOpen }: { more: () => void; isOpen: boolean }) {
  const here = place.value.page;
  const waiting = overview.value?.approvals.count ?? 0;
  const tabs: [string, string, string][] = [["overview", "Now", "home"], ["activity", "Activity", "pulse"], ["approvals", "Inbox", "hand"], ["tasks", "Tasks", "task"]];
  return (
    <nav class="tabbar" aria-label="Main pages">
      {tabs.map(([page, title, icon]) => (
        <a key={page} href={href(page)} aria-current={page === here ? "page" : undefined}>
          <Icon name={icon} />{title}{page === "approvals" && waiting > 0 && <span class="n person">{waiting}<span class="sr"> waiting</span></span>}
        </a>
      ))}
      <button type="button" aria-expanded={isOpen} onClick={more}><Icon name="menu" />More</button>
    </nav>
  );
}

const loaded = new Map<string, ComponentType<PanelProps>>();

/** Current draws the panel of the address. Another page's panel stays until the new one has come. */
function Current() {
  const { page, id, query } = place.value;
  const known = entries.find((e) => e.page === page);
  const [, drawn] = useState(0);
  const [failed, setFailed] = useState<Error | null>(null);
  const [broken, mend] = useErrorBoundary();
  useEffect(() => {
    mend();
    setFailed(null);
    if (!known || loaded.has(page)) return;
    let gone = false;
    known.load().then((m) => {
      loaded.set(page, m.default);
      if (!gone) drawn((n) => n + 1);
    }, () => {
      if (!gone) setFailed(new Error("Lanekeeper does not answer, or is a newer version. The page is loaded again as soon as there is an answer."));
    });
    return () => {
      gone = true;
    };
  }, [page]);
  // A script that could not be loaded is loaded by a new document alone. Where that did not help, a minute lies between two.
  useEffect(() => {
    if (!failed) return;
    const [document] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
    const timer = setInterval(() => {
      void api.get("/me", undefined, AbortSignal.timeout(5000)).then(() => location.reload(), () => {});
    }, document?.type === "reload" ? 60_000 : 5000);
    return () => clearInterval(timer);
  }, [failed]);
  const n = moved.value;
  useLayoutEffect(() => {
    if (restored !== null) document.getElementById("main")!.scrollTop = restored;
  }, [n]);
  useEffect(() => {
    if (restored === null || restored === 0) return;
    const main = document.getElementById("main")!;
    const top = restored;
    // The rows come after the page: it is scrolled where it was as soon as it is long enough.
    const watch = new ResizeObserver(() => {
      if (main.scrollHeight - main.clientHeight >= top) {
        main.scrollTop = top;
        watch.disconnect();
      }
    });
    if (main.firstElementChild) watch.observe(main.lastElementChild!);
    const timer = setTimeout(() => watch.disconnect(), 3000);
    return () => {
      watch.disconnect();
      clearTimeout(timer);
    };
  }, [n]);
  if (!known) return <div class="page"><header><h1>There is no such page</h1></header><section class="panel"><div class="empty"><b>{page}</b><span>The address may be mistyped.</span><a class="btn" href={href("overview")}>Overview</a></div></section></div>;
  if (broken || failed) return <div class="page"><header><h1>{known.title}</h1></header><section class="panel"><Failed error={(broken ?? failed) as Error} retry={() => location.reload()} what={known.title} /></section></div>;
  // The first answer also tells the server's time, by which panels read.
  if (!me.value) return <div class="page"><header><h1>{known.title}</h1></header>{unknown.value ? <section class="panel"><Failed error={unknown.value} what={known.title} retry={() => void who().catch(() => {})} /></section> : <Loading />}</div>;
  if (known.needs && !can(known.needs)) return <div class="page"><header><h1>{known.title}</h1></header><section class="panel"><NotAllowed /></section></div>;
  const Panel = loaded.get(page);
  if (!Panel) return <div class="page"><header><h1>{known.title}</h1></header><Loading /></div>;
  return <Panel key={page} id={id} query={query} />;
}

/** Shell is the frame of every page. */
export function Shell() {
  const more = useSignal(false);
  const folded = useSignal(stored("lk-folded") === "yes");
  const [dialog, setDialog] = useState<"" | "palette" | "help">("");
  const [Palette, setPalette] = useState<ComponentType<{ help: boolean; onClose: () => void }> | null>(null);
  const chord = useRef(0);
  const show = (which: "palette" | "help"): void => {
    setDialog(which);
    if (!Palette) void import("./palette").then((m) => setPalette(() => m.default));
  };
  useEffect(() => {
    const key = (e: KeyboardEvent): void => {
      if ((e.metaKey || e.ctrlKey) && e.key.toLowerCase() === "k") {
        e.preventDefault();
        show("palette");
      }
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  });
  // G and a letter open a page. The letter is taken before the page's own keys are asked.
  useEffect(() => {
    const key = (e: KeyboardEvent): void => {
      if (!chord.current || performance.now() - chord.current > 1200 || !single.on) return;
      chord.current = 0;
      const entry = entries.find((n) => n.key === e.key.toLowerCase());
      if (!entry || document.querySelector("dialog[open]")) return;
      e.preventDefault();
      go(href(entry.page));
    };
    document.addEventListener("keydown", key, true);
    return () => document.removeEventListener("keydown", key, true);
  }, []);
  useKeys({
    g: () => { chord.current = performance.now(); },
    "?": () => show("help"),
    ".": () => {
      // To what can be done with the row at hand, or else with what is open.
      const row = document.activeElement?.closest("tr") ?? document.querySelector("#main tbody tr:hover");
      const act = row?.querySelector<HTMLElement>(".acts :is(button, a)") ?? document.querySelector<HTMLElement>("#main .det .foot button, #main tbody .acts :is(button, a)");
      act?.focus();
    },
    "[": () => {
      folded.value = !folded.value;
      try { localStorage.setItem("lk-folded", folded.value ? "yes" : "no"); } catch { /* it holds until the page is closed */ }
    },
  });
  useEffect(() => { more.value = false; }, [place.value.page]);

  const o = overview.value;
  const title = entries.find((e) => e.page === place.value.page)?.title ?? "Lanekeeper";
  useLayoutEffect(() => {
    const [, , mark, icon] = o ? states[o.state] ?? states.idle! : states.idle!;
    document.title = mark + title + " · Lanekeeper";
    const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    // The address in the document is relative to the page that was opened, and the browser asks anew after
    // each change of pages: only a whole address stays right.
    if (link && link.getAttribute("href") !== icon) link.href = icon;
  }, [o?.state, title]);
  // The page behind a link is read from its beginning, also by a screen reader.
  const first = useRef(true);
  useLayoutEffect(() => {
    if (first.current) first.current = false;
    else document.getElementById("main")?.focus({ preventScroll: true });
  }, [place.value.page]);

  if (signedOut.value) return <SignedOut />;
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to content</a>
      <div class={"app" + (folded.value ? " folded" : "") + (connection.value.mode === "stale" ? " is-stale" : "")}>
        <Nav open={more.value} shut={() => { more.value = false; }} />
        <Header palette={() => show("palette")} />
        <main id="main" tabIndex={-1}><Stale /><Demo /><Current /></main>
        <TabBar more={() => { more.value = !more.value; }} isOpen={more.value} />
      </div>
      <Toasts />
      <Confirming />
      {dialog && Palette && <Palette help={dialog === "help"} onClose={() => setDialog("")} />}
    </>
  );
}

function SignedOut() {
  const there = me.value?.workspaces ?? [];
  if (signedOut.value === "workspace") {
    return (
      <main id="main" class="signed-out"><h1>You have no access to {there.find((w) => w.id === me.value!.workspaceId)?.name ?? "this workspace"} any more</h1>
        <p>Somebody has removed you from it, or it was deleted. An owner of it can add you again.</p>
        {others().map((w) => <button type="button" class="btn" key={w.id} onClick={() => void choose(w.id)}>Go to {w.name}</button>)}
        <a class="btn" href={base + "sign-in"}>Sign in</a>
        <Toasts />
      </main>
    );
  }
  const back = "#to=" + encodeURIComponent(location.pathname.slice(root.length) + location.search);
  return (
    <main id="main" class="signed-out"><h1>{me.value ? "You are signed out" : "You are not signed in"}</h1>
      <p>{me.value && "The session has ended. "}<code>bin/lanekeeper token</code> prints a link that signs you in.</p>
      <a class="btn primary" href={base + "sign-in" + back}>Sign in</a>
    </main>
  );
}

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
