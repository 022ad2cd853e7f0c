package engineroom_test

import (
	"encoding/csv"
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// strangerTests are those of people who see the page for the first time, or may do little, and of what
// goes wrong.
var strangerTests = []func(*room){
	strangersWalk, backToTheLink, inAnotherWorkspace, nothingIsCutOff, aTurnThatFails, asAMember, rightsThatChange, listsReadOn, exportsForSpreadsheets, panelsThatFail, nobodyKnown,
	panelsThatAreLate, oddAddresses,
}

// pages are all panels.
var pages = []string{
	"overview", "activity", "traces", "console", "tasks", "objectives", "automations", "agents", "approvals", "failures", "lanes", "threads",
	"skills", "spend", "memory", "webhooks", "members", "keys", "secrets", "settings", "audit",
}

// strangersWalk: from the link that the first start prints, four questions are answered with few clicks.
func strangersWalk(r *room) {
	r.expects("401")
	r.must(r.Goto(r.ctx, r.URL+"/sign-in#token=lk_of_a_program"))
	r.until(says("#said", "This is an API key") + `.textContent.includes("does not sign in")`)
	r.must(r.Eval(r.ctx, `document.getElementById("token").focus()`, nil))
	r.write("mistyped")
	r.press("Enter")
	r.until(says("#said", "This token is not valid") + `.textContent.includes("behind token=")`)
	r.must(r.Goto(r.ctx, r.URL+"/sign-in#workspace="+string(workspace.Demo)+"&token="+r.Token))
	r.until(says(".demo", "This is a demo"))
	r.signedIn = true
	clicks := 0
	click := func(element string) {
		r.Helper()
		r.click(element)
		clicks++
	}
	answered := func(question string, most int) {
		r.Helper()
		r.Logf("%s: %d clicks", question, clicks)
		if clicks > most {
			r.Errorf("%s takes %d clicks, want %d at most", question, clicks, most)
		}
		clicks = 0
	}
	home := func() {
		r.Helper()
		r.click(`document.querySelector(".brand")`)
		r.until(`location.pathname === "/engine/overview"`)
		r.settles()
	}

	r.until(one(".sentence"))
	click(says("header.top a", "Today"))
	click(says("[role=group] button, .seg button", "Today"))
	r.until(`[...document.querySelectorAll(".sums tbody tr .name")].some(e => e.textContent.includes("weigh price against quality"))`)
	answered("Which calls used most today?", 2)

	home()
	click(says(".nav a", "Tasks"))
	r.until(card("Order 40 kg of vanilla") + `?.textContent.includes("waits for Compare three offers for vanilla")`)
	answered("Why does this task wait?", 1)
	click(card("Order 40 kg of vanilla") + `.querySelector("a") ?? ` + card("Order 40 kg of vanilla"))
	r.until(says(".why", "Compare three offers for vanilla"))

	home()
	clicks = 0
	r.until(says("#main section", "Ada counts the freezer (demo)"))
	answered("Who holds this lane?", 0)
	click(says(".nav a", "Lanes"))
	r.until(says("#main", "stock-taking") + ` && ` + says("#main", "Ada counts the freezer (demo)"))

	home()
	clicks = 0
	click(`[...document.querySelectorAll("#main section a.btn, #main section button.btn")].find(e => e.textContent.includes("Review"))`)
	r.until(says(".args dd", "A. Okafor"))
	click(says(".ap .foot button:enabled", "Approve"))
	r.until(says(".toast", "Approved"))
	answered("Approve that refund.", 2)

	r.click(says(".demo button", "Go to Default"))
	r.until(`!document.querySelector(".demo") && document.querySelector(".who .tag")?.textContent === "default"`)
}

// backToTheLink: whoever opens a link without a session is not told that one has ended, and comes to its page by signing in.
func backToTheLink(r *room) {
	r.expects("401")
	r.must(r.Goto(r.ctx, r.URL+"/engine/tasks?view=list&q=a%20%26b"))
	r.until(says("h1", "not signed in"))
	if is := eval[string](r, `document.querySelector("#main").textContent`); strings.Contains(is, "ended") {
		r.Errorf("without a session the page says %q", is)
	}
	r.use(says("a", "Sign in"))
	r.until(`document.readyState === "complete" && document.querySelector("#token")`)
	r.must(r.Eval(r.ctx, `document.querySelector("#token").focus()`, nil))
	r.write(r.Token)
	r.press("Enter")
	r.until(`location.pathname === "/engine/tasks" && location.search.startsWith("?view=list&q=a") && document.querySelector(".search input")?.value === "a &b"`)
	r.signedIn = true
}

// inAnotherWorkspace: a command that a page shows acts on the workspace of the page; a delivery says what it did,
// and the id of a skill leads to the skill with its figures.
func inAnotherWorkspace(r *room) {
	r.must(r.Goto(r.ctx, r.URL+"/sign-in#workspace="+string(workspace.Demo)+"&token="+r.Token))
	r.until(`location.pathname === "/engine/overview" && document.querySelector("#main h1, #main .sentence")`)
	r.signedIn = true
	r.visit("keys")
	r.until(says(".empty code", "api-keys create") + `?.textContent.endsWith("--workspace demo")`)
	r.visit("webhooks")
	r.until(row("order.melted") + `?.textContent.includes("no rule fits")`)
	r.visit("skills/ask_forecast")
	r.until(says(".det dd", "3 calls in 14 days"))
	id := eval[string](r, `fetch("/api/v1/skills/ask_forecast").then(r => r.json()).then(s => s.id)`)
	r.visit("skills/" + id)
	r.until(says(".det h2", "ask_forecast"))
	r.until(says(".det dd", "3 calls in 14 days") + ` && document.querySelector(".tbl tr[aria-selected=true]")`)
	// What is not there may be in another workspace.
	r.expects("404")
	task := r.task("Fetch the cones", nil) // in Default
	r.visit("tasks/" + task)
	r.use(says(".empty button", "Look in Default"))
	r.until(says(".det h2", "Fetch the cones") + ` && document.querySelector(".who .tag")?.textContent === "default"`)
}

// nothingIsCutOff: beside an open detail a list's rows can be told apart, a long fact is broken, what can be done
// with a row is on display, and on a narrow phone nothing lies on a page's title.
func nothingIsCutOff(r *room) {
	r.open("overview")
	name := "cut_off_" + strings.Repeat("x", 12)
	r.ask(http.MethodPost, "/skills", map[string]any{"name": name, "kind": "http", "description": "Says what is in stock",
		"config": map[string]any{"url": "https://stock.invalid/", "method": "GET"}}, nil)
	r.ask(http.MethodPost, "/skills/"+name+"/disable",
		map[string]any{"reason": "It told everybody that nothing is in stock, and somebody believed it"}, nil)
	r.must(r.Resize(r.ctx, browser.Options{Width: 1440, Height: 900}))
	r.visit("skills/" + name)
	r.until(says(".det dd", "somebody believed it"))
	r.until(`[...document.querySelectorAll(".det dd")].every(e => e.scrollWidth <= e.clientWidth)`)
	var made struct{ ID string }
	r.ask(http.MethodPost, "/automations", map[string]any{
		"name": "Look whether nothing is cut", "skill": "query_activity", "schedule": map[string]any{"cron": "0 9 * * *"},
	}, &made)
	r.visit("automations/" + made.ID)
	r.until(one(".det") + ` && (e => e && e.scrollWidth <= e.clientWidth)(` + row("Look whether nothing is cut") + `?.querySelector("td a"))`)
	r.must(r.Resize(r.ctx, browser.Options{Width: 1000, Height: 900}))
	r.visit("skills")
	r.until(row(name) + ` && (e => e.scrollWidth <= e.clientWidth)(document.querySelector(".scroll"))`)
	r.must(r.Resize(r.ctx, browser.Options{Width: 320, Height: 800, Mobile: true}))
	for _, page := range pages {
		r.visit(page)
		r.settles()
		r.until(`(() => {
			const head = document.querySelector(".page > header"), acts = head?.querySelector(".acts")?.getBoundingClientRect();
			if (document.querySelector("#main").scrollWidth > 320) return false;
			if (!acts) return innerWidth === 320;
			const range = document.createRange();
			range.selectNodeContents(head.querySelector("h1"));
			return [...range.getClientRects()].every(t => t.right <= acts.left || t.bottom <= acts.top);
		})()`)
	}
}

// aTurnThatFails: the console says that a turn failed, why, and what to do.
func aTurnThatFails(r *room) {
	r.expects("404") // there is no such trace
	r.open("console")
	const streamed = `;window.streamed = (body) => Promise.resolve(new Response(body, {headers: {"Content-Type": "text/event-stream", "X-Execution-Id": "x"}}));
		window.done = (reply) => "event: done\ndata: " + JSON.stringify({traceId: "op_0mh8c1v2q_a7x2p1k9d4", usage: {totalTokens: 0}, ...reply}) + "\n\n";`
	r.must(r.Eval(r.ctx, noting+streamed+`window.answer = (url) => /\/operate$/.test(url) ? streamed(done({answer: "", status: "failed",
		reason: "the model failed: unavailable; nothing was done yet"})) : undefined`, nil))
	r.until(`document.activeElement.tagName === "TEXTAREA"`)
	r.write("What can you do?")
	r.press("Enter")
	r.until(says("#main .err", "unavailable") + " && " + says("#main .st.failed", "Failed"))
	r.until(says("#main p code", "lanekeeper doctor"))
	// A turn whose stream is cut off goes on, and the page reads on in it.
	r.must(r.Eval(r.ctx, `window.answer = (url) => /\/operate$/.test(url) ? streamed(new ReadableStream({pull: (c) => c.error(new TypeError("network error"))}))
		: !/\/executions\/x\/events$/.test(url) ? undefined
		: window.back ? streamed(done({answer: "Then it rained.", status: "completed"})) : Promise.reject(new TypeError("Failed to fetch"))`, nil))
	r.write("And then?")
	r.press("Enter")
	r.until(says("#main .turn", "And then?") + `?.querySelector(".facts")?.textContent.includes("the turn goes on")`)
	r.until(says("#main [role=status]", "The agent works"))
	if is := eval[string](r, says("#main .turn", "And then?")+`.textContent`); strings.Contains(is, "TypeError") {
		r.Errorf("of a stream that was cut off the console says %q", is)
	}
	r.must(r.Eval(r.ctx, `window.back = true`, nil))
	r.until(says("#main .turn .ans", "Then it rained.") + ` && ` + says("#main [role=status]", "The agent has answered"))
}

// asAMember: who may little is shown little, and no page asks for what is refused.
func asAMember(r *room) {
	const email = "member@shop.example"
	r.ask(http.MethodPost, "/members", map[string]any{"email": email, "role": "MEMBER"}, nil)
	link, err := r.Link(r.ctx, email)
	r.must(err)
	r.must(r.Goto(r.ctx, link))
	r.until(`location.pathname === "/engine/overview" && document.querySelector("#main h1, #main .sentence")`)
	r.signedIn = true
	for _, page := range pages {
		r.visit(page)
		r.settles()
		if may := eval[[]string](r, `[...document.querySelectorAll("#main button, .top button")].map(b => b.textContent.trim()).filter(t =>
			/^(Stop|New (skill|budget|API key|secret|endpoint|source|automation)|Approve|Reject|Release|Register agent|Add a member|Reallocate|Run a beat)/.test(t))`); len(may) > 0 {
			r.Errorf("%s offers a member %q", page, may)
		}
	}
	// A call waits for an admin, and that is said.
	r.must(r.Eval(r.ctx, `window.real = window.fetch;`+intercepted+`;window.answer = async (url) => {
		const at = new Date().toISOString(), json = (body) => new Response(JSON.stringify(body));
		if (/\/approvals[?]/.test(url)) return json({nextCursor: null, items: [{id: "one", skill: "refund", agent: "scout", traceId: "op_0mh8c1v2q_a7x2p1k9d4",
			title: "Refund it", input: {amount: 12}, status: "pending", requestedAt: at, expiresAt: at, untrusted: [], outside: false, inputDigest: "x"}]});
		if (/\/overview$/.test(url)) return json({...await (await real(url, {headers: {Accept: "application/json"}})).json(), approvals: {count: 1}});
	}`, nil))
	r.visit("overview")
	r.visit("approvals")
	r.until(says(".ap .st.person", "Waits for an admin") + ` && ` + says(".nav a", "Approvals") + `.textContent.includes("wait for an admin")`)
	r.visit("overview")
	r.until(says("#main h2", "Needs a person"))
	r.open("secrets")
	r.until(says("#main .empty", "You may not see this") + `?.textContent.includes("Admins and owners")`)
	if eval[bool](r, `!!`+says(".nav a, .menu-items a", "secrets")) {
		r.Error("the navigation of a member has secrets")
	}
}

// rightsThatChange: a page that is refused something learns what its person may do now, and whether they may still see the workspace.
func rightsThatChange(r *room) {
	const email = "demoted@shop.example"
	r.expects("403")
	var made struct{ UserID string }
	r.ask(http.MethodPost, "/members", map[string]any{"email": email, "role": "ADMIN"}, &made)
	link, err := r.Link(r.ctx, email)
	r.must(err)
	r.must(r.Goto(r.ctx, link))
	r.until(says(".who .name", "Admin") + " && " + one(".top .stop"))
	r.visit("secrets")
	r.settles()
	r.ask(http.MethodPatch, "/members/"+made.UserID, map[string]any{"role": "MEMBER"}, nil)
	r.visit("lanes")
	r.visit("secrets") // reads what is refused
	r.until(says(".who .name", "Member") + ` && !document.querySelector(".top .stop") && ` + says("#main", "You may not see this"))
	r.ask(http.MethodDelete, "/members/"+made.UserID, nil, nil)
	r.visit("tasks")
	r.until(says("h1", "no access to Default any more"))
}

// listsReadOn: a list has more than its first page, and a conversation without a name is called by its kind.
func listsReadOn(r *room) {
	r.open("overview")
	r.must(r.Eval(r.ctx, noting+`;window.answer = (url, how) => {
		const at = "2026-01-02T03:04:05Z", later = "2099-01-02T03:04:05Z";
		const named = {members: (id) => ({userId: id, email: id, role: "MEMBER", createdAt: at}), "api-keys": (id) => ({id, name: id, kind: "api", prefix: "lk", scopes: [], createdAt: at, createdBy: "ada"}),
			"site-keys": (id) => ({id, name: id, kind: "site", prefix: "lk", origins: [], createdAt: at, createdBy: "ada"}), secrets: (id) => ({name: id, createdAt: at, updatedAt: at}),
			"webhook-sources": (id) => ({id, name: id, kind: "hmac", path: id, enabled: true, rules: []}), "webhook-endpoints": (id) => ({id, url: "https://" + id, enabled: true, events: []}),
			budgets: (id) => ({id, scope: "agent", scopeId: id, allocated: 9, consumed: 0, remaining: 9, reserved: 0, consumedMicroUsd: 0, periodStart: at, periodEnd: later}),
			lanes: (id) => ({lane: id, label: id, holder: id, fence: 1, acquiredAt: at, lockedAt: at, expiresAt: later})}[/api\/v1\/([\w-]+)[?]/.exec(url)?.[1]];
		if (/\/budgets\/row-/.test(url)) return Promise.resolve(new Response(JSON.stringify({items: [], recommendation: "CONTINUE", dailyBurnRate: 0})));
		if (named && how.headers.Accept === "text/csv") return Promise.resolve(new Response("id\n" + (url.includes("cursor=") ? "row-second" : "row-number-one") + "\n", {headers: url.includes("cursor=") ? {} : {"X-Next-Cursor": "more"}}));
		if (named) return Promise.resolve(new Response(JSON.stringify(url.includes("cursor=") ? {items: [named("row-second")], nextCursor: null}
			: {items: Array.from({length: 200}, (_, i) => named("row-" + i)), nextCursor: "more"})));
		const row = {audit: (id) => ({id, action: "skill." + id, by: "ada", summary: "", subject: "", createdAt: "2026-01-02T03:04:05Z"}),
			deliveries: (id) => ({id, direction: "inbound", status: "done", event: id, receivedAt: "2026-01-02T03:04:05Z"}),
			threads: (id) => ({id, address: id, channel: "operate", updatedAt: "2026-01-02T03:04:05Z", queued: 0})}[/api\/v1\/(\w+)[?]/.exec(url)?.[1]];
		if (url.includes("action=nothing")) return Promise.resolve(new Response(JSON.stringify({items: [], nextCursor: null})));
		return row && Promise.resolve(new Response(JSON.stringify(url.includes("cursor=") ? {items: [row("row-second")], nextCursor: null} : {items: [row("row-number-one")], nextCursor: "more"})));
	}`, nil))
	r.must(r.Eval(r.ctx, saving, nil))
	for _, list := range []struct{ page, file string }{
		{"members", "members.csv"}, {"secrets", ""}, {"keys", "api-keys.csv"}, {"spend", "budgets.csv"}, {"webhooks?view=sources", ""}, {"webhooks?view=endpoints", ""}, {"lanes", ""},
	} {
		r.visit(list.page)
		r.until(says("#main .more-rows", "The first 200") + ` && ` + row("row-199"))
		r.must(r.Eval(r.ctx, `document.querySelectorAll("#main .more-rows button").forEach(b => b.click())`, nil))
		r.until(`!document.querySelector("#main .more-rows") && ` + row("row-second"))
		if list.file == "" {
			continue
		}
		// A file has the rows of all pages.
		r.use(`[...document.querySelectorAll("#main button[aria-haspopup=menu]")].findLast(b => b.textContent === "Export" && !b.closest("section")?.textContent.includes("Site keys"))`)
		r.use(says("[role=menuitem]", "Download CSV"))
		r.until(`window.savedAs === ` + quoted(list.file) + ` && window.saved === "id\nrow-number-one\nrow-second\n"`)
	}
	r.visit("audit")
	r.until(row("skill.row-number-one") + " && " + row("skill.row-second"))
	r.visit("audit?action=nothing")
	r.until(says(".empty", "More than 1 without the filters."))
	r.visit("webhooks")
	r.until(row("row-number-one") + " && " + row("row-second"))
	r.expects("404") // there is no such conversation
	r.expects("422")
	r.expects("400")
	r.visit("threads")
	r.until(says(".ilist a", "Operate …er-one"))
	r.click(says(".ilist button", "More"))
	r.until(says(".ilist a", "Operate …second"))
}

// saving keeps what would be saved as a file, for the test.
const saving = `(() => {
	const follow = HTMLAnchorElement.prototype.click;
	URL.createObjectURL = (blob) => { blob.text().then(text => { window.saved = text; }); return "about:blank#saved"; };
	HTMLAnchorElement.prototype.click = function () { this.download ? window.savedAs = this.download : follow.call(this); };
})()`

// exportsForSpreadsheets: what a list shows is saved as CSV, and no cell is a formula.
func exportsForSpreadsheets(r *room) {
	formulas := []string{`=HYPERLINK("https://outside.example","x")`, `+1+1`, `-2+3`, `@SUM(A1)`, "\t=1", "plain, \"quoted\"\nand broken"}
	for _, f := range formulas {
		r.ask(http.MethodPost, "/memories", map[string]any{"category": "formula", "content": f}, nil)
	}
	r.open("memory?category=formula")
	r.must(r.Eval(r.ctx, saving, nil))
	r.click(button("Export"))
	r.click(says("[role=menuitem]", "Download CSV"))
	r.until(`window.saved && window.savedAs`)
	if name := eval[string](r, `window.savedAs`); name != "memories.csv" {
		r.Errorf("it is saved as %q", name)
	}
	rows, err := csv.NewReader(strings.NewReader(eval[string](r, `window.saved`))).ReadAll()
	if err != nil || len(rows) != len(formulas)+1 {
		r.Fatalf("the file has %d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				r.Errorf("a spreadsheet computes the cell %q", cell)
			}
		}
	}
}

// visit opens a page without loading the document anew.
func (r *room) visit(page string) {
	r.Helper()
	r.must(r.Eval(r.ctx, `(() => {
		const link = document.createElement("a");
		link.href = "/engine/`+page+`";
		document.querySelector("#main").append(link);
		link.click();
		link.remove();
	})()`, nil))
	r.until(`location.pathname + location.search === "/engine/` + page + `"`)
}

// refuse makes the reads of the page, but for those of its frame, end as the JavaScript function says.
const refuse = `((as) => {
	const ask = window.fetch;
	window.refusing = true;
	window.fetch = (url, how) => window.refusing && how.method === "GET" && !/\/(me|overview|events)([?]|$)/.test(url) ? as(how) : ask(url, how);
})`

// failing are the panels that read something of their own.
func failing() (out []string) {
	for _, page := range pages {
		if page != "overview" && page != "console" {
			out = append(out, page)
		}
	}
	return out
}

// panelsThatFail: where the server fails, each panel says so and what to do, and it has its data as soon as
// there is an answer.
func panelsThatFail(r *room) {
	r.open("overview")
	r.must(r.Eval(r.ctx, refuse+`(() => Promise.resolve(new Response(JSON.stringify({title: "Internal error", status: 500, code: "internal", detail: "Something broke", traceId: "op_x"}), {status: 500})))`, nil))
	for _, page := range failing() {
		r.must(r.Eval(r.ctx, `window.refusing = true`, nil))
		r.visit(page)
		r.until(says("#main [role=alert]", "Something broke") + ` && [...document.querySelectorAll("#main [role=alert] button")].some(b => b.textContent === "Try again")`)
		r.must(r.Eval(r.ctx, `window.refusing = false`, nil))
		r.must(r.Eval(r.ctx, `[...document.querySelectorAll("#main [role=alert] button")].filter(b => b.textContent === "Try again").forEach(b => b.click())`, nil))
		r.until(`!document.querySelector("#main [role=alert]")`)
		r.settles()
	}
}

// nobodyKnown: where it can't be told who is signed in, each page says why, and has its data once there is an answer.
func nobodyKnown(r *room) {
	r.open("overview")
	r.must(r.Before(r.ctx, noting+`;window.answer = (url) => /\/me$/.test(url) && !window.released ? Promise.resolve(new Response(
		JSON.stringify({title: "Unavailable", status: 503, code: "unavailable", detail: "The database does not answer"}), {status: 503})) : undefined`))
	for _, page := range []string{"secrets", "tasks"} {
		r.must(r.Goto(r.ctx, r.URL+"/engine/"+page))
		r.until(says("#main [role=alert]", "The database does not answer"))
		r.must(r.Eval(r.ctx, `window.released = true`, nil))
		r.use(says("#main [role=alert] button", "Try again"))
		r.until(`!document.querySelector("#main [role=alert]")`)
		r.settles()
	}
}

// panelsThatAreLate: a read that is never answered ends as one that failed.
func panelsThatAreLate(r *room) {
	r.open("overview")
	r.must(r.Eval(r.ctx, `(() => {
		const later = window.setTimeout;
		window.setTimeout = (fn, ms, ...of) => later(fn, ms === 30000 ? 300 : ms, ...of);
	})()`, nil))
	r.must(r.Eval(r.ctx, refuse+`((how) => new Promise((_, no) => how.signal.addEventListener("abort", () => no(how.signal.reason))))`, nil))
	for _, page := range []string{"activity", "tasks", "skills"} {
		r.visit(page)
		r.until(says("#main [role=alert]", "did not answer in 30 seconds"))
	}
}

// oddAddresses: an id that is none, or of nothing, is told as such.
func oddAddresses(r *room) {
	r.expects("400")
	r.expects("404")
	r.expects("422")
	for i, page := range []string{"traces", "tasks", "objectives", "automations", "agents", "approvals", "threads", "skills", "memory", "webhooks", "lanes"} {
		r.open(page + "/" + []string{"no-such-id", "%3Cscript%3E"}[i%2])
		if !eval[bool](r, `!!document.querySelector("#main h1") && document.querySelector("#main").innerText.trim().length > 20`) {
			r.Errorf("%s shows nothing", page)
		}
	}
}
