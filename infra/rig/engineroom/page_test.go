package engineroom_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/browser/axe"
)

// pageTests are the tests of the frame, and of Overview, Activity, Traces and Console.
var pageTests = []func(*room){
	frame, firstLoad, oneWorkspace, keepsWhatItHas, failures, leftTheFilter, overview, overviewTells,
	dayInHours, followsLive, filtersInTheAddress, waterfall, compareTwo, replayAndFork, console, palette, keyboardOnly, statuses, routes,
	standaloneOf("overview", "activity", "traces", "console", "tasks", "tasks?view=list"),
	standaloneOf("objectives", "automations", "agents", "approvals", "failures", "lanes"),
	standaloneOf("threads", "skills", "spend", "memory", "webhooks"),
	standaloneOf("members", "keys", "secrets", "settings", "audit"),
}

// lastTests stop the workspace, fill it with odd texts, or take the connection away.
var lastTests = []func(*room){consoleWaits, stopAndRelease, lostConnection, longNames, hostile}

// frame: every page has the header, the navigation and one h1, and keys lead from one to the next.
func frame(r *room) {
	r.open("overview")
	r.until(`document.querySelectorAll("h1").length === 1 && document.querySelectorAll(".nav a").length > 14`)
	r.goTo("t")
	r.until(`location.pathname === "/engine/traces" && document.title.includes("Traces") && document.activeElement.id === "main"`)
	r.until(one(".live.live"))
	// Who is signed in, and with which role, is not cut off.
	r.until(says(".who .name", "Owner") + ` && [...document.querySelectorAll(".who .name, .who .name *")].every(e => e.scrollWidth <= e.clientWidth)`)
	r.press("[")
	r.until(one(".app.folded"))
	r.press("[")
	r.must(r.Goto(r.ctx, r.URL+"/engine/nowhere"))
	r.until(says("h1", "no such page"))
	r.must(r.Goto(r.ctx, r.URL+"/"))
	r.until(`location.pathname === "/engine/overview"`)
}

// firstLoad: the overview has its data with two requests, and the first load stays small.
func firstLoad(r *room) {
	r.open("overview")
	before := len(r.Requests())
	r.must(r.Reload(r.ctx))
	r.settles()
	r.until(one(".sentence"))
	const limit = 60_000
	var got struct{ Script, Style, Data int }
	r.must(r.Eval(r.ctx, `(() => {
		const of = (ends) => performance.getEntriesByType("resource").filter(e => e.name.split("?")[0].endsWith(ends)).reduce((n, e) => n + e.encodedBodySize, 0);
		const paint = performance.getEntriesByType("resource").filter(e => e.name.includes("/api/v1/"));
		return {script: of(".js"), style: of(".css"), data: new Set(paint.map(e => e.name).filter(n => /\/(overview|me)$/.test(n))).size};
	})()`, &got))
	if got.Script > limit || got.Style > 10_000 || got.Script == 0 {
		r.Errorf("the first load has %d bytes of script and %d of style, compressed: at most %d and 10000", got.Script, got.Style, limit)
	}
	if got.Data != 2 {
		r.Errorf("%d requests tell who is there and what runs, want 2", got.Data)
	}
	for _, url := range r.Requests()[before:] {
		if !strings.HasPrefix(url, r.URL+"/") {
			r.Errorf("the page asks %s", url)
		}
	}
	r.Logf("first load: %d bytes of script, %d of style", got.Script, got.Style)
}

// noting makes the page note its requests: their addresses and workspaces.
const noting = `(() => {
	const ask = window.fetch;
	window.asked = [];
	window.fetch = (url, how) => {
		window.asked.push({url, method: how.method, workspace: how.headers["X-Workspace-Id"] ?? "", body: how.body});
		return window.answer?.(url, how) ?? ask(url, how);
	};
})()`

// oneWorkspace: each request of the page is for the workspace that it shows.
func oneWorkspace(r *room) {
	r.open("overview")
	r.until(one(".live.live"))
	var me struct{ WorkspaceID string }
	r.ask("GET", "/me", nil, &me)
	r.must(r.Eval(r.ctx, noting, nil))
	for _, page := range []string{"t", "l", "s"} {
		r.goTo(page)
		r.until(`document.activeElement.id === "main"`)
		r.settles()
	}
	r.until(`["/traces", "/lanes", "/skills/health"].every(path => asked.some(a => a.url.includes(path)))`)
	if wrong := eval[[]string](r, `asked.filter(a => a.workspace !== `+quoted(me.WorkspaceID)+`).map(a => a.url)`); len(wrong) > 0 {
		r.Errorf("requests for another workspace than %s: %q", me.WorkspaceID, wrong)
	}
}

// keepsWhatItHas: where the API refuses for a while, the page keeps its rows, says that they and the header may be old,
// and asks again.
func keepsWhatItHas(r *room) {
	r.open("activity")
	r.until(one(".live.live"))
	r.until(`document.querySelectorAll("table[aria-label=Activity] tbody tr").length > 1`)
	r.must(r.Eval(r.ctx, noting, nil))
	r.must(r.Eval(r.ctx, `window.answer = (url) => /activity[?]|overview$/.test(url)
		? Promise.resolve(new Response("{}", {status: 503, headers: {"Retry-After": "2"}})) : undefined`, nil))
	r.ask("POST", "/objectives", map[string]any{"title": "Happens while it fails", "description": "seen later"}, nil)
	r.until(says("#main [role=alert]", "could not be read"))
	r.until(`document.querySelectorAll("table[aria-label=Activity] tbody tr").length > 1`)
	r.until(says(".live.off", "Not live") + " && " + says(".stale", "may be old"))
	r.must(r.Eval(r.ctx, `window.answer = undefined`, nil))
	r.until(`!document.querySelector("#main [role=alert]") && document.querySelectorAll("table[aria-label=Activity] tbody tr").length > 1`)
	r.until(one(".live.live") + ` && !document.querySelector(".stale")`)
}

// failures: what failed can be opened and dismissed; what failed again since is not dismissed unseen.
func failures(r *room) {
	r.open("overview")
	r.until(one(`a.cell[href$="engine/failures"]`))
	r.must(r.Eval(r.ctx, noting, nil))
	r.must(r.Eval(r.ctx, `(() => {
		const of = (status, body) => Promise.resolve(new Response(JSON.stringify(body), {status}));
		window.failed = [{kind: "task", id: "one", title: "Mow the lawn behind the house before the visitors of Saturday morning come", why: "no fuel", at: "2026-01-02T03:04:05Z"},
			{kind: "message", id: "two", title: "See you on Monday", why: "no such number", at: "2026-01-02T03:04:05Z", traceId: "op_0mh8c1v2q_a7x2p1k9d4", threadId: "three"}];
		window.dismissed = [];
		window.answer = (url) => {
			if (url.endsWith("/dismiss")) {
				dismissed.push(url);
				if (dismissed.length === 1) return of(409, {code: "failed_again", title: "It failed again"});
				failed = [];
				return of(200, {});
			}
			if (/failures[?]/.test(url)) return of(200, {items: failed, nextCursor: null});
		};
	})()`, nil))
	r.goTo("f")
	r.until(row("Mow the lawn") + `.querySelector('a[href$="engine/tasks/one"]')`)
	r.until(row("See you on Monday") + `.querySelector('a[href$="engine/threads/three"]')`) // where it can be sent again
	// A phone shows the whole title, the reason under it, and what can be done, which a mouse finds by hovering.
	r.must(r.Resize(r.ctx, browser.Phone))
	r.until(`(e => innerWidth === 390 && e.querySelector("a").scrollWidth <= e.querySelector("a").clientWidth && e.querySelector("small")?.offsetHeight > 0
		&& e.querySelector("small").textContent.includes("no fuel") && e.querySelector("a").offsetHeight > 30)(` + row("Mow the lawn") + `.querySelector("td"))`)
	r.until(`getComputedStyle(` + row("Mow the lawn") + `.querySelector(".acts")).opacity === "1"`)
	r.must(r.Resize(r.ctx, browser.Desktop))
	r.press(".") // leads to what can be done with it
	r.until(`document.activeElement.closest("tr") && document.activeElement.textContent.startsWith("Open")`)
	r.click(row("Mow the lawn") + `.querySelector("button")`)
	r.until(says(".toast", "failed again") + " && " + row("Mow the lawn"))
	r.click(row("Mow the lawn") + `.querySelector("button")`)
	r.until(says(".empty", "Nothing failed") + ` && dismissed.every(url => url.endsWith("/failures/task/one/dismiss"))`)
	r.until(`asked.filter(a => a.url.endsWith("/dismiss")).every(a => a.body === '{"at":"2026-01-02T03:04:05Z"}')`)
}

// dayInHours: the chart of a budget of one day names hours, not the same day again and again.
func dayInHours(r *room) {
	r.open("overview")
	r.must(r.Before(r.ctx, noting+`
		window.drawn = [];
		window.spent = false;
		const fill = CanvasRenderingContext2D.prototype.fillText;
		CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { drawn.push(text); return fill.call(this, text, ...rest); };
		window.answer = (url) => {
			const day = 86400000, today = Math.floor(Date.now() / day) * day, iso = (at) => new Date(at).toISOString();
			const of = (body) => Promise.resolve(new Response(JSON.stringify(body)));
			if (/\/budgets[?]/.test(url)) return of({nextCursor: null, items: [{id: "day-purse", scope: "agent", scopeId: "flowpilot:hb",
				allocated: 5e5, consumed: spent ? 5e5 : 45331, remaining: spent ? 0 : 454669, reserved: 0, periodStart: iso(today), periodEnd: iso(today + day)}]});
			const projection = {recommendation: "CONTINUE", dailyBurnRate: 0, rateYesterday: 0, rateWeek: 0};
			if (/\/day-purse\/projection/.test(url)) return of(projection);
			if (/\/day-purse\/series/.test(url)) return of({allocated: 5e5, budgetId: "day-purse", projection,
				items: [{day: iso(today), tokens: 0, microUsd: 0, remaining: 454669}]});
		};`))
	r.open("spend")
	r.until(`document.querySelector(".burn canvas") && drawn.includes("even pace")`)
	r.until(`drawn.some(text => /^\d\d:00$/.test(text) && text !== "00:00")`)
	r.until(`document.querySelector(".burn").ariaLabel.includes("they last until the period ends on")`)
	// Of a budget that is spent nothing lasts, also where nothing was used lately.
	r.must(r.Eval(r.ctx, `spent = true`, nil))
	r.visit("lanes")
	r.visit("spend")
	r.until(says(".said", "500,000 tokens are spent; the period ends"))
}

// longNames: on a phone a long name is broken, so that what stands beside it, in all rows, is not pushed out.
func longNames(r *room) {
	r.open("overview")
	name := strings.Repeat("stock_", 10) + "last"
	r.ask("POST", "/skills", map[string]any{"name": name, "kind": "http", "description": "Says what is in stock",
		"config": map[string]any{"url": "https://stock.invalid/", "method": "GET"}}, nil)
	r.ask("POST", "/api-keys", map[string]any{"name": name, "role": "MEMBER", "scopes": []string{"*:read"}}, nil)
	r.ask("POST", "/secrets", map[string]any{"name": name, "value": "s3cret"}, nil)
	r.must(r.Resize(r.ctx, browser.Phone))
	for _, page := range []string{"skills", "keys", "secrets"} {
		r.visit(page)
		r.until(`[...document.querySelectorAll(".tbl td:first-child")].some(e => e.textContent.includes("` + name + `"))`)
		r.until(`innerWidth === 390 && [...document.querySelectorAll(".tbl th:nth-child(2)")].every(e => e.getBoundingClientRect().right <= innerWidth)`)
	}
	// A title without a space, and a tag, stay within the dialog and the pane that show them.
	long := strings.Repeat("W", 200)
	id := r.task(long, map[string]any{"tags": []string{long[:40]}})
	for _, screen := range []browser.Options{browser.Phone, browser.Desktop} {
		r.must(r.Resize(r.ctx, screen))
		r.visit("tasks/" + id)
		r.until(says(".det dd .tag", "WWW"))
		r.click(button("Cancel task"))
		r.asks(long)
		if wide := eval[[]string](r, `[...document.querySelectorAll("dialog[open], .det dd")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.outerHTML.slice(0, 60))`); len(wide) > 0 {
			r.Errorf("on %d pixels too wide are %q", screen.Width, wide)
		}
		r.press("Escape")
		r.until(`!` + asked)
		r.visit("tasks")
	}
}

// leftTheFilter: a row that is no longer in the list's first page, and not pushed out by new ones, is gone.
func leftTheFilter(r *room) {
	r.open("overview")
	r.must(r.Eval(r.ctx, noting, nil))
	r.must(r.Eval(r.ctx, `(() => {
		const task = (n) => ({id: "task-" + n, title: "Task number " + n + ".", status: "PENDING", priority: 5, tags: [], createdAt: "2026-01-02T03:04:05Z"});
		window.first = [1, 2, 3, 4].map(task);
		window.answer = (url) => {
			if (!/agent-tasks[?]/.test(url)) return;
			const page = url.includes("cursor=") ? {items: [task(5), task(6)], nextCursor: null} : {items: first, nextCursor: "more"};
			return Promise.resolve(new Response(JSON.stringify(page)));
		};
	})()`, nil))
	r.must(r.Eval(r.ctx, `(() => {
		const a = document.createElement("a");
		a.href = document.querySelector('.nav a[href$="engine/tasks"]').href + "?view=list&status=PENDING";
		document.getElementById("main").append(a);
		a.click();
	})()`, nil))
	r.until(row("Task number 6."))
	// The second row left the list; a new one pushed the fourth out.
	r.must(r.Eval(r.ctx, `first = [{...first[0], id: "task-0", title: "Task number 0."}, first[0], first[2]]`, nil))
	r.task("Somebody else's", nil) // its event makes the page read
	r.until(row("Task number 0."))
	r.until(row("Task number 4.") + " && !" + row("Task number 2."))
}

// overview: the sentence, the verdict's six lines, the strip and what happened last.
func overview(r *room) {
	r.open("overview")
	r.until(`document.querySelector(".sentence")?.textContent.length > 3`)
	r.until(`document.querySelectorAll(".verdict li").length === 6`)
	r.until(`document.querySelectorAll(".beat li").length === 6`)
	r.until(`document.querySelector(".strip svg")`)
	// No row stays empty for ever: a cycle of the coordinator has no execution.
	if rows := eval[[]string](r, `[...document.querySelectorAll(".strip svg text.k")].map(e => e.textContent)`); !slices.Equal(rows, []string{"heartbeat", "operate", "chat", "webhook", "worker"}) {
		r.Errorf("the strip has the rows %q", rows)
	}
	r.until(`document.querySelectorAll('table[aria-label=Activity] tbody tr').length > 3`)
	r.click(`document.querySelector('table[aria-label=Activity] tbody tr td:nth-child(4)')`)
	r.until(`location.pathname.startsWith("/engine/traces/")`)
}

// manyMarks answers the reads of runs and of holds with more of them than elements are drawn for, on two pages.
const manyMarks = `
	window.manyMarks = (url) => {
		const at = (ms) => new Date(Date.now() - ms).toISOString(), second = url.includes("cursor=");
		const of = {
			"/traces?": (n) => ({traceId: "op_0mh8c1v2q_a7x2p1k9d4", surface: "operate", status: n % 100 ? "completed" : "failed", startedAt: at(3.6e6 + n * 4000), endedAt: at(3.6e6 + n * 4000 - 900)}),
			"/lanes/history?": (n) => ({lane: "heartbeat", label: "", holder: "heartbeat/one", agent: "scout", ended: "released", status: "completed", surface: "heartbeat", changed: true,
				traceId: "hb_0mh8c1v2q_a7x2p1k9d4", acquiredAt: at(60000 + n * 1000), endedAt: at(60000 + n * 1000 - 400)}),
		}[/\/traces[?]|\/lanes\/history[?]/.exec(url)?.[0]];
		return of && Promise.resolve(new Response(JSON.stringify({nextCursor: second ? null : "more", items: Array.from({length: second ? 700 : 1000}, (_, i) => of(second ? 1000 + i : i))})));
	};`

// painted is the pixels of the strip's canvas from its left end on, as JavaScript.
const painted = `(c => {
	const copy = document.createElement("canvas");
	[copy.width, copy.height] = [c.width, c.height];
	const to = copy.getContext("2d", {willReadFrequently: true});
	to.drawImage(c, 0, 0);
	return to.getImageData(0, 0, c.width, c.height).data;
})`

// drawn waits until a strip with many marks has all of them on its canvas, from the first one on, and follows
// one to its trace.
func (r *room) drawn() {
	r.Helper()
	r.until(`(() => {
		const c = document.querySelector(".strip canvas");
		return c?.width && ` + painted + `(c).some((v, i) => i % 4 === 3 && v && (i >> 2) % c.width < c.width / 8) && [...document.querySelectorAll(".strip .sr td")].some(e => e.textContent === "1700") && document.querySelectorAll(".strip svg [data-to]").length === 0;
	})()`)
	r.must(r.Eval(r.ctx, `(() => {
		const c = document.querySelector(".strip canvas"), at = c.getBoundingClientRect(), data = `+painted+`(c);
		const n = data.findIndex((v, i) => i % 4 === 3 && v === 255) >> 2, scale = c.width / at.width;
		c.dispatchEvent(new MouseEvent("click", {bubbles: true, clientX: at.left + (n % c.width) / scale + 0.5, clientY: at.top + Math.floor(n / c.width) / scale + 2}));
	})()`, nil))
	r.until(`location.pathname.startsWith("/engine/traces/")`)
}

// overviewTells: how much a run has used so far, that more tasks may wait than are counted, what a call that
// waits would do, and where the budget leads.
func overviewTells(r *room) {
	r.open("overview")
	r.expects("404") // the trace of the marks
	r.must(r.Before(r.ctx, `window.real = window.fetch;`+noting+manyMarks+`window.budget = (url) => {
			const day = 86400000, at = (n) => new Date(Math.floor(Date.now() / day) * day + n * day).toISOString();
			if (/\/budgets[?]/.test(url)) return Promise.resolve(new Response(JSON.stringify({nextCursor: null, items: [
				{id: "purse", scope: "global", allocated: 1e6, consumed: 5e5, remaining: 5e5, reserved: 0, periodStart: at(-10), periodEnd: at(10)}]})));
			if (/\/purse\/series/.test(url)) return Promise.resolve(new Response(JSON.stringify({allocated: 1e6, budgetId: "purse", items: Array.from({length: 10}, (_, i) => (
				{day: at(i - 9), tokens: 5e4, microUsd: 0, remaining: 95e4 - i * 5e4})), projection: {recommendation: "THROTTLE", dailyBurnRate: 6e4, rateYesterday: 9e4, rateWeek: 3e4}})));
		};
		window.answer = (url) => !/\/overview$/.test(url) ? manyMarks(url) ?? budget(url) :
		real(url, {headers: {Accept: "application/json"}}).then(got => got.json()).then(o => new Response(JSON.stringify({...o, state: "working",
			verdict: {...o.verdict, lines: o.verdict.lines.map(l => ({...l, text: "The budget of the project that has a long name ends early", detail: "27 Nov, period 1 Dec"}))},
			running: [{executionId: "one", traceId: "op_0mh8c1v2q_a7x2p1k9d4", surface: "operate", agent: "scout", title: "Tidy up", startedAt: o.at, tokens: 41877, microUsd: 200000}],
			tasks: {waiting: 10000, waitingMore: true, working: 0, failed: 0, byReason: [{code: "no_agent", count: 9000}, {code: "thread", count: 900}, {code: "budget", count: 90}, {code: "backoff", count: 9}, {code: "paused", count: 1}]},
			today: {...o.today, tokens: 405, cappedTokens: 205, capTokens: 500, capMicroUsd: null},
			failures: {count: 1, items: [{kind: "execution", id: "two", title: "Tidy up", why: "dependency_failed", at: o.at, traceId: "op_0mh8c1v2q_a7x2p1k9d5"}]},
			needs: [{kind: "approval", id: "one", title: "Refund: amount 12", why: "scout asks to call refund", at: o.at, tone: "person"},
				{kind: "task", id: "six", title: "A task waits, and no agent can take it",
					why: "no agent has the capability py: register one that has it", at: o.at, tone: "warn"},
				...["two", "three", "four"].map(id => (
					{kind: "failure", id, title: "Tidy up", why: "dependency_failed", at: o.at, tone: "failed"}))]})))`))
	r.open("overview")
	r.until(says(".facts", "41,877 tokens · $0.20 so far"))
	r.until(says(".panel h2", "10,000+ waiting"))
	r.until(says(".mini", "and at least 1 more waits"))
	r.until(says(".top .cell", "41 %") + ` && ` + says(".need", "and 1 more"))
	// The cap is of beats, and so is what it is compared with.
	r.until(says(".spend-sub", "405 tokens in") + ` && ` + says(".spend-sub", "Beats used 205 of 500") + ` && ` + says(".spend-of", "Workspace"))
	r.until(says(".panel h2 a.more", "Approvals"))
	// A failure leads to its trace, and its code is words.
	r.until(says(".need li", "what it depends on failed") + `.querySelector('a[href$="engine/traces/op_0mh8c1v2q_a7x2p1k9d5"]')`)
	r.until(says(".need", "Refund: amount 12"))
	r.until(says(".need li", "no agent has the capability py") + `.querySelector('a[href$="engine/tasks/six"]')`)
	r.until(`[...document.querySelectorAll(".verdict li a, .verdict li .first")].every(e => e.scrollWidth <= e.clientWidth && e.textContent.endsWith("early"))`)
	// The budget leads into a band between two paces, and no label lies on a line.
	r.until(`document.querySelector(".ch .band")?.getBBox().height > 10 && document.querySelector(".ch .zero")`)
	if on := eval[[]string](r, `(() => {
		const chart = document.querySelector(".ch .band").closest("svg");
		const lines = [...chart.querySelectorAll("path")].filter(e => e.getAttribute("fill") === "none" || e.matches(".even, .ahead"));
		const hits = (path, box) => Array.from({length: 200}, (_, i) => path.getPointAtLength(i / 199 * path.getTotalLength()))
			.some(p => p.x > box.x && p.x < box.x + box.width && p.y > box.y + 2 && p.y < box.y + box.height - 2);
		return [...chart.querySelectorAll("text")].filter(t => /left|pace/.test(t.textContent) && lines.some(l => hits(l, t.getBBox()))).map(t => t.textContent);
	})()`); len(on) > 0 {
		r.Errorf("labels of the burn-down lie on its lines: %q", on)
	}
	// The words of a budget of one day stand within its chart.
	r.must(r.Eval(r.ctx, `(() => {
		const many = window.budget, day = 86400000, today = Math.floor(Date.now() / day) * day, iso = (at) => new Date(at).toISOString();
		window.budget = (url) => /\/budgets[?]/.test(url) ? Promise.resolve(new Response(JSON.stringify({nextCursor: null, items: [
			{id: "day-purse", scope: "agent", scopeId: "flowpilot:hb", allocated: 5e5, consumed: 45331, remaining: 454669, reserved: 0, periodStart: iso(today), periodEnd: iso(today + day)}]})))
			: /\/day-purse\/series/.test(url) ? Promise.resolve(new Response(JSON.stringify({allocated: 5e5, budgetId: "day-purse", items: [1, 0].map(n => (
				{day: iso(today - n * day), tokens: 0, microUsd: 0, remaining: n ? 5e5 : 454669})), projection: {recommendation: "CONTINUE", dailyBurnRate: 0, rateYesterday: 0, rateWeek: 0}})))
			: many(url);
	})()`, nil))
	r.visit("lanes")
	r.visit("overview")
	r.until(says(".spend-of", "Agent flowpilot, beats") + ` && ` + says(".ch text", "455 k left"))
	r.until(`(chart => [...chart.querySelectorAll("text")].every(t => t.getBoundingClientRect().right <= chart.getBoundingClientRect().right
		&& t.getBoundingClientRect().left >= chart.getBoundingClientRect().left))(` + says(".ch text", "even pace") + `.closest("svg"))`)
	// Many runs and holds are drawn on a canvas, and none is left out.
	r.until(`document.querySelector(".strip svg").ariaLabel.includes("1,700 runs, 17 failed")`)
	r.drawn()
	r.visit("lanes")
	r.drawn()
}

// followsLive: what happens appears without a reload; while the list is scrolled it waits behind a pill.
func followsLive(r *room) {
	r.open("activity")
	r.until(one(".live.live"))
	create := func(title string) {
		r.ask("POST", "/objectives", map[string]any{"title": title, "description": "seen live"}, nil)
	}
	first := eval[string](r, `document.querySelector('table[aria-label=Activity] tbody tr')?.textContent ?? ""`)
	create("Something new to see")
	r.until(`document.querySelector('table[aria-label=Activity] tbody tr').textContent !== ` + quoted(first))
	r.must(r.Eval(r.ctx, `document.getElementById("main").scrollTop = 400`, nil))
	r.until(`document.getElementById("main").scrollTop > 100`)
	create("Something newer to see")
	r.until(one(".pill .btn"))
	r.must(r.Eval(r.ctx, `document.querySelector(".pill .btn").click()`, nil))
	r.until(`document.getElementById("main").scrollTop === 0 && !document.querySelector(".pill")`)
}

// filtersInTheAddress: filters stand in the address; back and forward restore them.
func filtersInTheAddress(r *room) {
	r.open("activity")
	r.click(says(".f", "Errors"))
	r.until(`location.search === "?status=error"`)
	r.until(`[...document.querySelectorAll("table[aria-label=Activity] tbody tr .st")].every(e => e.classList.contains("failed"))`)
	r.press("/")
	r.until(`document.activeElement.type === "search"`)
	r.write("shop_status")
	r.until(`location.search.includes("q=shop_status")`)
	r.must(r.Eval(r.ctx, `history.back()`, nil))
	r.until(`location.search === "?status=error" && document.querySelector("input[type=search]").value === ""`)
	r.must(r.Eval(r.ctx, `history.back()`, nil))
	r.until(`location.search === "" && !document.querySelector(".f.on")`)
	r.must(r.Eval(r.ctx, `history.forward()`, nil))
	r.until(`location.search === "?status=error" && document.querySelector(".f.on")`)
	r.open("activity?q=nothing-is-called-so")
	r.until(says(".empty", "without the filters."))
	r.click(says(".empty .btn", "Clear filters"))
	r.until(`location.search === "" && document.querySelectorAll("table[aria-label=Activity] tbody tr").length`)
}

// firstTrace is the id of the first beat.
func firstTrace(r *room) string {
	r.Helper()
	var all struct {
		Items []struct{ TraceID, Status string }
	}
	for range 600 {
		r.ask("GET", "/traces?surface=heartbeat&limit=50", nil, &all)
		if n := len(all.Items); n > 0 && all.Items[n-1].Status == "completed" {
			return all.Items[n-1].TraceID
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	r.Fatal("no beat has ended")
	return ""
}

// waterfall: a trace as a waterfall, a span in a pane, folded and zoomed; the span stands in the address.
func waterfall(r *room) {
	r.open("traces/" + firstTrace(r))
	r.until(`document.querySelectorAll("[data-span]").length > 10 && document.querySelectorAll(".bar.model").length && document.querySelectorAll(".bar.phase").length`)
	// What ran in a phase stands under it, and nothing under one that found no work.
	r.until(`(() => {
		let phase = "", idle = false;
		return [...document.querySelectorAll("[data-span]")].every(row => {
			if (row.querySelector(".lbl.phase")) { phase = row.querySelector(".lbl.phase").textContent; idle = row.textContent.includes("nothing to do"); }
			return !phase || !idle || !row.querySelector(".lbl.exec, .lbl.model");
		});
	})()`)
	// That holds as well where the phase is written as begun a little after the first of its runs.
	real := eval[string](r, `location.pathname.split("/").at(-1)`)
	r.must(r.Eval(r.ctx, noting+`;window.answer = (url) => {
		if (!url.includes("/traces/hb_0mh8c1v2q_a7x2p1k9d4")) return;
		const at = (ms) => new Date(Date.parse("2026-01-02T03:04:05Z") + ms).toISOString(), usage = {promptTokens: 0, completionTokens: 0, totalTokens: 0};
		const of = {traceId: "hb_0mh8c1v2q_a7x2p1k9d4", agent: "scout", surface: "heartbeat", attempt: 1, tokenUsage: usage, costUsd: 0};
		const phase = (name, ends, durationMs) => ({...of, id: name, kind: "phase", skillName: "heartbeat." + name, status: "success", executionId: "beat", durationMs,
			startedAt: at(ends - durationMs), createdAt: at(ends), output: {name, considered: name === "automate" ? 0 : 1, done: name === "automate" ? 0 : 1}});
		return Promise.resolve(new Response(JSON.stringify({traceId: of.traceId, surface: "heartbeat", status: "completed", startedAt: at(0), endedAt: at(200), durationMs: 200, usage, costUsd: 0, holds: [],
			executions: [{...of, id: "beat", status: "completed", createdAt: at(0), endedAt: at(200)}, {...of, id: "run", parentExecutionId: "beat", title: "Water the plants", status: "completed", createdAt: at(57), endedAt: at(140)}],
			activities: [phase("plan", 50, 40), phase("automate", 58, 3), phase("advance", 147, 87)]})));
	}`, nil))
	r.visit("traces/hb_0mh8c1v2q_a7x2p1k9d4")
	r.until(says("[data-span]", "Water the plants"))
	if order := eval[[]string](r, `[...document.querySelectorAll("[data-span] .lbl")].map(e => e.textContent)`); !strings.Contains(order[len(order)-2], "advance") {
		r.Errorf("a run of the phase advance stands under another one: %q", order)
	}
	r.visit("traces/" + real)
	r.click(says("[data-span] .lbl", "query_activity"))
	r.until(`location.search.startsWith("?span=") && document.querySelector(".det")?.textContent.includes("Output")`)
	r.press("j")
	r.until(`document.querySelector("[data-span][aria-selected=true] .lbl.model") && document.querySelector(".det .words, .det .code")`)
	r.press("Escape")
	r.until(`!document.querySelector(".det") && location.search === ""`)
	all := eval[int](r, `document.querySelectorAll("[data-span]").length`)
	r.click(`document.querySelector("[data-span] [data-fold]")`)
	r.until(fmt.Sprintf(`document.querySelectorAll("[data-span]").length < %d`, all))
}

func compareTwo(r *room) {
	r.ask("POST", "/heartbeat/run", map[string]any{"wait": true}, nil)
	r.open("traces?surface=heartbeat")
	r.until(`document.querySelectorAll("table[aria-label=Traces] tbody tr").length > 1`)
	r.press("j", "x", "j", "x")
	r.click(says(".btn", "Compare two"))
	r.until(`document.querySelectorAll(".compare tbody tr").length > 5`)
}

// replayAndFork: the model is asked again without a call, and a run goes on from a step in another way.
func replayAndFork(r *room) {
	var spoken struct{ TraceID, ExecutionID string }
	r.ask("POST", "/operate", map[string]any{"message": "What have you done today?"}, &spoken)
	r.open("traces/" + spoken.TraceID)
	r.until(says(".tot div", "Skill calls") + `.textContent === "Skill calls0" && document.querySelector("[data-span] .lbl.model")`)
	r.click(says(".acts .btn", "Replay"))
	r.click(says("dialog .btn", "Replay"))
	r.until(says("dialog", "Nothing was done."))
	r.click(says("dialog .btn", "Close"))
	r.click(`document.querySelector("[data-span] .lbl.model")`)
	r.click(says(".det .btn", "Fork from here"))
	r.click(says("dialog .btn", "Fork"))
	r.until(`document.querySelector("[data-span][aria-selected=true] .lbl.exec")?.textContent === "fork"`)
}

// console: a turn with the agent, streamed.
func console(r *room) {
	r.open("console")
	r.until(`document.activeElement.tagName === "TEXTAREA"`)
	r.write("What have you done today?")
	r.press("Enter")
	r.until(`document.querySelector(".turn .q")?.textContent.includes("today") && document.querySelector(".turn .facts .link")`)
	r.until(`document.querySelector(".turn .ans")?.textContent.length > 10`)
	r.until(`/^[?]thread=.{36}$/.test(location.search)`)
	const answered = `[...document.querySelectorAll(".turn")].filter(e => e.querySelector(".facts .link") &&
		e.querySelector(".ans")?.textContent.length > 10).length`
	r.must(r.Reload(r.ctx))
	r.until(answered + ` === 1 && document.querySelector(".turn .q").textContent.includes("today")`)

	// What is said before the first answer of a conversation has come is said in the same one.
	r.click(says("main button", "New thread"))
	r.until(`!document.querySelector(".turn") && location.search === ""`)
	r.must(r.Eval(r.ctx, `window.real = window.fetch;`+noting+`;window.answer = (url, how) => {
		if (!/\/operate$/.test(url) || window.kept) return undefined;
		window.kept = true; // and nothing of its stream comes
		return real(url, how).then((answer) => { void answer.body.cancel(); return new Response(new ReadableStream({}), {headers: answer.headers}); });
	}`, nil))
	r.click(one("main textarea"))
	for _, said := range []string{"What is new?", "And since then?"} {
		r.write(said)
		r.press("Enter")
	}
	r.until(answered + ` === 1`)
	thread := eval[string](r, `new URLSearchParams(location.search).get("thread")`)
	in := eval[[]string](r, `asked.filter(a => a.url.endsWith("/operate")).map(a => JSON.parse(a.body).threadId ?? "")`)
	if !slices.Equal(in, []string{"", thread}) {
		r.Errorf("the messages were said in the threads %q, the page shows %q", in, thread)
	}
	r.press("Escape")
	r.toasts("the turn goes on")
	r.ask("POST", "/operate", map[string]any{"message": "Who else is here?", "threadId": thread}, nil)
	r.until(answered + ` === 3 && document.querySelectorAll(".turn .q")[2].textContent === "Who else is here?"`)
	for _, screen := range []browser.Options{browser.Phone, browser.Desktop} { // what one writes into is never cut
		r.must(r.Resize(r.ctx, screen))
		r.until(fmt.Sprintf(`innerWidth === %d && document.querySelector("main textarea").getBoundingClientRect().bottom <= (document.querySelector(".tabbar")?.getBoundingClientRect().top || innerHeight)`, screen.Width))
	}
}

// consoleWaits: a call that waits for a person is decided in the console, also after a reload, and the answer comes.
func consoleWaits(r *room) {
	r.ask("PATCH", "/skills/save_memory", map[string]any{"requiresApproval": true}, nil)
	defer r.ask("PATCH", "/skills/save_memory", map[string]any{"requiresApproval": false}, nil)
	r.open("console")
	r.until(`document.activeElement.tagName === "TEXTAREA"`)
	r.write("Remember that reports are due on Mondays.")
	r.press("Enter")
	r.until(says(".turn .steps", "waits for a person") + ` && ` + says("main [role=status]", "The agent waits for a person"))
	r.must(r.Reload(r.ctx))
	r.until(says(".turn .q", "due on Mondays"))
	r.click(says(".turn .steps button", "Approve"))
	r.until(says("main [role=status]", "The agent has answered") + ` && !` + says(".turn", "I stopped"))
	r.use(one(".turn .facts .link"))
	r.until(says(".tot div", "Skill calls") + `?.textContent === "Skill calls1" && !` + says("[data-span] .lbl", "operate"))
	r.must(r.Eval(r.ctx, `history.back()`, nil))
	r.until(`location.pathname === "/engine/console"`)
	r.must(r.Reload(r.ctx))
	r.until(says(".turn .steps", "approved") + ` && !` + says(".turn button", "Approve"))
	r.must(r.Resize(r.ctx, browser.Options{Width: 320, Height: 800, Mobile: true}))
	r.until(`innerWidth === 320 && document.querySelector("#main").scrollWidth <= 320 && ` + says(".comp button", "New thread"))
	r.must(r.Resize(r.ctx, browser.Desktop))

	// The last call that waits is on display, and another decides it: the page says so.
	var asked struct{ Approvals []string }
	r.ask("POST", "/operate", map[string]any{"message": "Remember that the shop is closed on Sundays."}, &asked)
	r.open("approvals?skill=save_memory")
	r.click(says(".ap .foot button", "Edit"))
	r.until(one("#arg-content"))
	r.ask("POST", "/approvals/"+asked.Approvals[0]+"/approve", map[string]any{}, nil)
	r.until(says(".ap", "closed on Sundays") + ` && document.querySelector(".ap .st.done") && !document.querySelector("#arg-content")`)
	r.until(says(".ilist", "No other call waits"))
}

// palette: by name, and by a pasted id.
func palette(r *room) {
	r.open("overview")
	r.press("Control+k")
	r.until(`document.activeElement.getAttribute("role") === "combobox"`)
	r.write("spend")
	r.press("Enter")
	r.until(`location.pathname === "/engine/spend" && !document.querySelector("dialog[open]")`)
	id := firstTrace(r)
	r.press("Control+k")
	r.until(`document.activeElement.getAttribute("role") === "combobox"`)
	r.write(id)
	r.until(says("[role=option]", "open this trace"))
	r.press("Enter")
	r.until(`location.pathname.endsWith(` + quoted(id) + `)`)
	r.press("?")
	r.until(says("dialog[open]", "Open a page"))
	r.press("Escape")
	r.until(`!document.querySelector("dialog[open]")`)
}

// keyboardOnly: from the skip link through a list to a trace and back.
func keyboardOnly(r *room) {
	r.open("traces")
	r.until(`document.querySelectorAll("table[aria-label=Traces] tbody tr").length`)
	r.must(r.Resize(r.ctx, browser.Phone)) // which has room for the title first
	r.until(`innerWidth === 390 && document.querySelector("table[aria-label=Traces] tbody tr td .nb").closest("td").offsetWidth > 120`)
	r.until(`[...document.querySelectorAll("table[aria-label=Traces] td .nb")].every(e => !e.textContent.startsWith("Heartbeat of") ||
		(td => e.getBoundingClientRect().right <= td.getBoundingClientRect().right - parseFloat(getComputedStyle(td).paddingRight))(e.closest("td")))`)
	r.must(r.Resize(r.ctx, laptop))
	r.until(`innerWidth === 1280 && document.querySelector("table[aria-label=Traces] tbody tr td .nb").closest("td").offsetWidth > 240`)
	r.must(r.Resize(r.ctx, browser.Desktop))
	r.until(`innerWidth === 1440`)
	r.press("Tab")
	r.until(`document.activeElement.className === "skip"`)
	r.press("Enter")
	r.until(`document.activeElement.id === "main"`)
	r.press("j", "Enter")
	r.until(`location.pathname.startsWith("/engine/traces/")`)
	r.until(`document.querySelectorAll("[data-span]").length > 1`)
	r.settles()
	r.press("j", "j")
	r.until(one(".det"))
	r.press("Escape")
	r.until(`!document.querySelector(".det")`)
	r.goTo("o")
	r.until(`location.pathname === "/engine/overview"`)
}

// standaloneOf returns a test that opens each page at four widths and in both themes: no barrier, no
// overflow, no complaint.
func standaloneOf(pages ...string) func(*room) {
	return func(r *room) {
		for _, page := range pages {
			r.must(r.Resize(r.ctx, browser.Options{Width: 1440, Height: 900}))
			r.must(r.Prefer(r.ctx, map[string]string{"prefers-color-scheme": "light", "prefers-reduced-motion": "reduce"}))
			r.open(page)
			r.barriers(page + " in light")
			for _, width := range []int{1920, 1440, 1000, 390} {
				r.must(r.Resize(r.ctx, browser.Options{Width: width, Height: 844}))
				r.until(fmt.Sprintf("innerWidth === %d", width))
				over := eval[[]string](r, `(() => {
					const main = document.getElementById("main"), wide = [];
					if (document.documentElement.scrollWidth > innerWidth) wide.push("the page: " + document.documentElement.scrollWidth);
					if (main.scrollWidth > main.clientWidth) {
						wide.push("main: " + main.scrollWidth + " of " + main.clientWidth);
						for (const e of main.querySelectorAll("*")) if (e.getBoundingClientRect().right > innerWidth + 1 && wide.length < 5) wide.push(e.outerHTML.slice(0, 120));
					}
					return wide;
				})()`)
				if len(over) > 0 {
					r.Errorf("%s is too wide at %d: %q", page, width, over)
				}
			}
			r.must(r.Prefer(r.ctx, map[string]string{"prefers-color-scheme": "dark", "prefers-reduced-motion": "reduce"}))
			r.until(`document.documentElement.dataset.theme === "dark"`)
			r.barriers(page + " in dark, on a phone")
		}
	}
}

func (r *room) barriers(where string) {
	r.Helper()
	found, err := axe.Violations(r.ctx, r.Page)
	r.must(err)
	for _, v := range found {
		r.Errorf("%s: %s", where, v)
	}
}

// stopAndRelease: the kill switch of the workspace, from the header.
func stopAndRelease(r *room) {
	r.open("overview")
	r.click(one(".stop"))
	r.until(one("dialog[open] input"))
	r.write("maintenance")
	r.must(r.Eval(r.ctx, `document.querySelectorAll("dialog input")[1]?.focus()`, nil))
	r.until(`document.activeElement.tagName === "INPUT"`)
	if eval[bool](r, `document.querySelectorAll("dialog input").length > 1`) {
		r.write(eval[string](r, `document.querySelector("dialog label b").textContent`))
	}
	r.press("Enter")
	r.until(`document.querySelector(".cell.state").textContent.includes("Stopped") && document.querySelector(".stop").textContent === "Release"`)
	r.until(`document.title.startsWith("■ ")`)
	r.click(one(".stop"))
	var shown struct{ Stop struct{ ID string } }
	r.ask("GET", "/overview", nil, &shown)
	r.must(r.Eval(r.ctx, noting, nil))
	r.click(says("dialog .btn", "Release"))
	r.until(`asked.some(a => a.method === "POST" && a.url.endsWith("/kill-switches/` + shown.Stop.ID + `/release"))`)
	r.until(`!document.querySelector(".cell.state").textContent.includes("Stopped")`)
}

// lostConnection: the page says since when it is not live, dims its data, and comes back by itself.
func lostConnection(r *room) {
	r.expects("ERR_INTERNET_DISCONNECTED")
	r.open("activity")
	r.until(one(".live.live"))
	r.must(r.Offline(r.ctx, true))
	r.until(`document.querySelector(".stale")?.textContent.includes("Not live since") && document.querySelector(".app.is-stale")`)
	r.visit("webhooks") // whose script is not loaded yet
	r.until(says("#main [role=alert]", "is loaded again as soon as there is an answer"))
	r.must(r.Offline(r.ctx, false))
	r.until(`!document.querySelector(".stale") && !document.querySelector(".live.off") && ` + says("h1", "Webhooks") + ` && !document.querySelector("#main [role=alert]")`)
	r.settles()
}
