package engineroom_test

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/engineroom"
)

// workTests are the tests of Tasks, Agents, Objectives, Automations, Approvals and Memory.
var workTests = []func(*room){
	whyATaskWaits, namesInTheLog, cancelATaskWithItsDependents, filtersOfTasks, createATaskByKeyboard, manyTasksAtOnce,
	approvals, failedCall, decidedElsewhere, objectives, automations, agents, memories, emptyPanels,
}

// Cards of the board and rows of a list that hold a text, as JavaScript.
func card(text string) string   { return says(".card", text) }
func row(text string) string    { return says(".tbl tbody tr", text) }
func button(text string) string { return says("button", text) }

// asks waits for a dialog that says something, whose first field or button has the focus.
func (r *room) asks(words string) {
	r.Helper()
	r.until(says("dialog[open]", words) + " && document.activeElement?.closest('dialog[open]') && !document.activeElement.matches('dialog')")
}

// fill writes a text into the field that a selector finds, in place of what stands there.
func (r *room) fill(selector, text string) {
	r.Helper()
	r.until(one(selector))
	r.must(r.Eval(r.ctx, one(selector)+".focus(), "+one(selector)+".select?.()", nil))
	r.write(text)
}

// nobody is a capability that no agent has, so that a task waits as long as a test needs it.
var nobody = map[string]any{"requiredCapabilities": []string{"nobody"}}

func (r *room) task(title string, fields map[string]any) string {
	r.Helper()
	body := map[string]any{"title": title, "metadata": nobody}
	for k, v := range fields {
		body[k] = v
	}
	var made struct{ ID string }
	r.ask(http.MethodPost, "/agent-tasks", body, &made)
	return made.ID
}

// A task says why it waits, draws what it depends on, and leads there.
func whyATaskWaits(r *room) {
	first := r.task("Count the ice creams", nil)
	r.task("Order more ice cream", map[string]any{"dependsOn": []string{first}, "priority": 10})
	r.open("tasks")
	r.until(says(".col section", "Blocked by a task") + ".textContent.includes('Order more ice cream')")
	// The board and what stands beside it do not overlap, whether a task is open or not.
	beside := func() {
		for _, width := range []int{1280, 1366, 1440} {
			r.must(r.Resize(r.ctx, browser.Options{Width: width, Height: 900}))
			r.until(fmt.Sprintf(`innerWidth === %d && `, width) + `[...document.querySelectorAll(".col > h2, .col .card")].every(e => e.getBoundingClientRect().right < document.querySelector(".det").getBoundingClientRect().left)`)
		}
	}
	beside()
	r.click(card("Order more ice cream"))
	r.until(says(".why q", "Count the ice creams"))
	beside()
	r.until(`document.querySelectorAll(".dag a").length === 2 && document.querySelector(".dag path.block")`)
	r.until(says(".deps .sr li", "Count the ice creams: Pending"))
	r.until(says(".log li", "the task was created"))
	r.click(says(".chain a", "Open"))
	r.until(`location.pathname.endsWith("` + first + `")`)
	r.until(says(".det h2", "Count the ice creams"))
	r.click(one(".det .shut"))
	r.until(`location.pathname === "/engine/tasks" && !document.querySelector(".det h2")`)
}

// namesInTheLog: what an agent did to a task stands under the agent's name.
func namesInTheLog(r *room) {
	var made struct{ ID, Token string }
	r.ask(http.MethodPut, "/agents/00000000-0000-7000-8000-00000000c0de", map[string]any{"name": "gardener", "capabilities": []string{"garden"}}, &made)
	id := r.task("Rake the leaves", map[string]any{"metadata": map[string]any{"requiredCapabilities": []string{"garden"}}})
	gardener := &engineroom.Product{URL: r.URL, Token: made.Token}
	r.must(gardener.Ask(r.ctx, http.MethodPost, "/agents/"+made.ID+"/claim", map[string]any{}, nil))
	r.must(gardener.Ask(r.ctx, http.MethodPost, "/agent-tasks/"+id+"/fail", map[string]any{"attempt": 1, "error": "the rake broke", "retryable": false}, nil))
	r.open("tasks/" + id)
	r.until(`document.querySelectorAll(".log li").length > 1`)
	r.until(says(".search ~ .choose option", "gardener")) // the names come a little later
	if who := eval[[]string](r, `[...document.querySelectorAll(".log li .muted")].map(e => e.textContent)`); who[0] != "gardener" {
		r.Errorf("the log, the latest first, is of %q", who)
	}
}

// Cancelling names the tasks that fail with it.
func cancelATaskWithItsDependents(r *room) {
	first := r.task("Paint the door", nil)
	second := r.task("Hang the door", map[string]any{"dependsOn": []string{first}})
	third := r.task("Close the door", map[string]any{"dependsOn": []string{second}})
	r.open("tasks/" + first)
	r.click(button("Cancel task"))
	r.asks("2 tasks depend on it and will fail")
	r.until(says("dialog[open]", "Close the door") + " && document.querySelector('dialog [type=submit]').disabled")
	r.press("Escape")
	r.until(`!document.querySelector("dialog[open]")`)
	r.click(button("Cancel task"))
	r.asks("Paint the door")
	r.fill("dialog input", "the door stays blue")
	r.press("Enter")
	r.until(says(".toast", "Cancelled: Paint the door"))
	r.until(says(".det .st", "Cancelled"))
	r.until(says(".why q", "the door stays blue"))
	var got struct {
		Status    string
		Cancelled bool
	}
	r.ask(http.MethodGet, "/agent-tasks/"+first, nil, &got)
	if got.Status != "ABORTED" || !got.Cancelled {
		r.Errorf("it is %+v", got)
	}
	// The cycle fails what depends on it, and the page hears of it.
	r.open("tasks/" + third)
	r.until(says(".det .st", "Failed"))
}

// Filters stand in the address, and the history undoes them.
func filtersOfTasks(r *room) {
	r.task("Sweep the yard", map[string]any{"priority": 9, "tags": []string{"yard"}})
	r.task("Sweep the roof", map[string]any{"priority": 2})
	r.open("tasks?q=sweep")
	r.until(card("Sweep the yard"))
	r.until(card("Sweep the roof"))
	r.click(button("Priority 8 and up"))
	r.until(`location.search.includes("minPriority=8") && !` + card("Sweep the roof") + ` && ` + card("Sweep the yard"))
	r.must(r.Eval(r.ctx, `history.back()`, nil))
	r.until(`!location.search.includes("minPriority") && ` + card("Sweep the roof"))
	r.must(r.Eval(r.ctx, `history.forward()`, nil))
	r.until(`location.search.includes("minPriority=8") && !` + card("Sweep the roof"))
	r.press("/")
	r.until(`document.activeElement?.matches(".search input")`)
	r.fill(".search input", "no such task anywhere")
	r.until(says(".empty", "No task matches"))
	r.click(button("Clear filters"))
	r.until(`location.search === "" && ` + card("Sweep the roof"))
	r.must(r.Reload(r.ctx))
	r.until(card("Sweep the roof"))
}

// C opens the form, fields are checked, and the new task is opened.
func createATaskByKeyboard(r *room) {
	r.open("tasks")
	r.press("c")
	r.asks("New task")
	r.press("Enter")
	r.until(says("dialog .err", "This is needed"))
	r.write("Water the plants")
	for range 3 {
		r.press("Tab")
	}
	r.press("Enter")
	r.until(`!document.querySelector("dialog[open]")`)
	r.until(says(".det h2", "Water the plants"))
	r.press(".") // to what can be done with the task
	r.until(`document.activeElement.closest(".det .foot")`)
	r.press("Escape")
	r.until(`location.pathname === "/engine/tasks"`)
	r.until(card("Water the plants"))
}

// What matches a filter is changed at once, on the server, after its number was shown.
func manyTasksAtOnce(r *room) {
	for i := range 3 {
		r.task(fmt.Sprintf("Wash window %d", i+1), map[string]any{"tags": []string{"windows"}})
	}
	kept := r.task("Wash the car", nil)
	r.open("tasks?view=list&tags=windows")
	r.until(`document.querySelectorAll(".tbl tbody tr").length === 3`)
	r.click(button("With all that match"))
	r.click(says("[role=menuitem]", "Cancel all"))
	r.asks("Cancel 3 tasks?")
	first := r.task("Wash window 4", map[string]any{"tags": []string{"windows"}})
	r.fill("dialog input", "it rains")
	r.press("Enter")
	r.expects("409")
	r.asks("Cancel 4 tasks?")
	r.until(`document.querySelector("dialog input").value === "it rains"`)
	// A request that has no time for all is followed by others; after one that fails a person goes on.
	r.must(r.Eval(r.ctx, noting+`; window.sent = 0; window.answer = (url, how) => {
		const of = (status, body) => new Response(JSON.stringify(body), {status});
		if (!/\/bulk$/.test(url)) return;
		switch (++window.sent) {
		case 1: return window.fetch(url.replace("bulk", "`+first+`/cancel"), {...how, headers: {...how.headers, "Idempotency-Key": "one"}, body: '{"reason": "it rains"}'})
			.then(() => of(202, {matched: 4, changed: 1, refused: 0}));
		case 2: return Promise.resolve(of(409, {code: "count_changed", count: 4}));
		case 3: return Promise.resolve(of(503, {detail: "Too much to do"}));
		}
	}`, nil))
	r.press("Enter")
	r.until(says(".toast", "1 of 4 changed. Too much to do"))
	r.click(says(".toast button", "Go on"))
	r.until(says(".toast", "4 of 4 changed"))
	if asked := eval[string](r, `asked.filter(a => /\/bulk$/.test(a.url)).map(a => JSON.parse(a.body)).map(b => b.expectedCount + b.reason).join()`); asked != "4it rains,3it rains,4it rains,4it rains" {
		r.Errorf("the page asked %q", asked)
	}
	r.until(`[...document.querySelectorAll(".tbl tbody tr")].every(e => e.textContent.includes("Cancelled"))`)
	var got struct{ Cancelled bool }
	r.ask(http.MethodGet, "/agent-tasks/"+kept, nil, &got)
	if got.Cancelled {
		r.Error("a task that does not match was cancelled")
	}
	// Single rows are chosen by key.
	r.press("j", "x", "j", "x")
	r.until(says("[role=status]", "2 tasks selected"))
}

// waitsFor makes the agent ask for calls of create_task, each with its own title, and returns their
// approvals.
func (r *room) waitsFor(titles ...string) (ids []string) {
	r.Helper()
	r.ask(http.MethodPatch, "/skills/create_task", map[string]any{"requiresApproval": true}, nil)
	for _, title := range titles {
		var o struct{ ID string }
		r.ask(http.MethodPost, "/objectives", map[string]any{"title": "Have it done: " + title, "priority": 10}, &o)
		step := map[string]any{"title": "Give it to somebody", "skill": "create_task", "inputs": map[string]any{
			"title": title, "description": "A customer of order 10482 asks for it, and says please.", "priority": 6,
		}}
		r.ask(http.MethodPut, "/objectives/"+o.ID+"/steps", map[string]any{"steps": []any{step}}, nil)
	}
	found := map[string]string{}
	for len(found) < len(titles) {
		r.ask(http.MethodPost, "/heartbeat/run", map[string]any{"wait": true}, nil)
		var page struct {
			Items []struct {
				ID, Skill string
				Input     struct{ Title string }
			}
		}
		r.ask(http.MethodGet, "/approvals?status=pending&limit=200&skill=create_task", nil, &page)
		for _, a := range page.Items {
			for _, title := range titles {
				if a.Input.Title == title {
					found[title] = a.ID
				}
			}
		}
		if r.ctx.Err() != nil {
			r.Fatalf("the agent asked for %v only", found)
		}
	}
	for _, title := range titles {
		ids = append(ids, found[title])
	}
	return ids
}

// A call is approved by a click, edited and approved by keys, and rejected; a phone has the same.
func approvals(r *room) {
	ids := r.waitsFor("Send the refund", "Call the customer", "Write an apology", "Bake a cake")
	r.open("approvals?skill=create_task")
	r.until(`document.querySelectorAll(".ilist a").length >= 4`)
	r.click(`document.querySelector('.ilist a[href*="` + ids[0] + `"]')`)
	r.until(says(".args dd", "Send the refund"))
	r.until(says(".ap .fact", "The skill requires approval"))
	r.click(says(".ap .foot button:enabled", "Approve"))
	r.until(says(".toast", "Approved"))
	r.until(`!document.querySelector('.ilist a[href*="` + ids[0] + `"]')`)

	// By keys alone: E edits, a wrong value is refused at its field, A approves what was edited.
	r.open("approvals/" + ids[1] + "?skill=create_task")
	r.until(says(".args dd", "Call the customer"))
	r.until(one(".ap [aria-keyshortcuts=A]")) // its keys are known
	r.press("e")
	r.until(`document.querySelector("#arg-priority")`)
	r.fill("#arg-priority", "77")
	r.until(says(".args .err", "Expected at most 10"))
	r.until(says(".ap .foot button", "Approve") + ".disabled")
	r.fill("#arg-priority", "9")
	r.until(`document.querySelector(".change del").textContent === "6" && document.querySelector(".change ins").textContent === "9"`)
	r.until(says(".ap .foot button", "Approve as edited"))
	r.must(r.Eval(r.ctx, `document.activeElement.blur()`, nil))
	r.until(one(".ap [aria-keyshortcuts=A]")) // the card is on display long enough
	r.press("a")
	r.until(says(".toast", "Approved"))
	r.open("tasks?view=list&q=Call+the+customer")
	r.until(row("Call the customer") + ".textContent.includes('9')")
	r.open("approvals/" + ids[1] + "?status=decided")
	r.until(`document.querySelector(".args .change")?.textContent.includes("6") && document.querySelector(".args ins").textContent === "9"`)

	// R asks for a reason.
	r.open("approvals/" + ids[2] + "?skill=create_task")
	r.until(says(".args dd", "Write an apology"))
	r.until(one(".ap [aria-keyshortcuts=A]"))
	r.press("r")
	r.asks("Reject")
	r.fill("dialog input", "we did nothing wrong")
	r.press("Enter")
	r.until(says(".toast", "Rejected"))
	var a struct{ Status, Reason string }
	r.ask(http.MethodGet, "/approvals/"+ids[2], nil, &a)
	if a.Status != "rejected" || a.Reason != "we did nothing wrong" {
		r.Errorf("it is %+v", a)
	}

	// On a phone the list and the card are two pages, and Approve is large enough for a thumb.
	r.must(r.Resize(r.ctx, browser.Phone))
	r.open("approvals?skill=create_task")
	r.click(`document.querySelector('.ilist a[href*="` + ids[3] + `"]')`)
	r.until(says(".args dd", "Bake a cake"))
	r.until(`document.querySelector(".ilist").offsetHeight === 0 && document.querySelector(".ap .primary").offsetHeight >= 44`)
	r.until(`document.documentElement.scrollWidth <= innerWidth`)
	r.click(says(".ap .foot button:enabled", "Approve"))
	r.until(says(".toast", "Approved"))
}

// failedCall: a call that was approved and failed is said to have failed, and is not among the other calls of its skill.
func failedCall(r *room) {
	r.open("overview")
	r.must(r.Before(r.ctx, `window.real = window.fetch;`+intercepted+`;window.answer = (url) => {
		const at = new Date().toISOString(), of = (id, error, history) => ({
			id, skill: "refund", agent: "scout", traceId: "op_0mh8c1v2q_a7x2p1k9d4", title: "Refund " + id, input: {amount: 12},
			status: "executed", requestedAt: at, expiresAt: at, decidedAt: at, decidedBy: "ada", untrusted: [], outside: false,
			inputDigest: "x", error, history});
		if (/\/approvals[?]/.test(url)) return Promise.resolve(new Response(JSON.stringify({nextCursor: null, items: [
			of("one", "the shop is closed", {approved: 0, rejected: 0, edited: 0}), of("two", undefined, {approved: 1, rejected: 0, edited: 0})]})));
	}`))
	r.open("approvals?status=decided")
	r.until(says(".ap h2", "Refund one") + ` && ` + says(".ap .st.failed", "Call failed") + ` && ` + says(".ap .fact", "the shop is closed"))
	r.until(says(".ap .fact", "No other call of refund was decided"))
	one := says(".ilist a", "Refund one")
	r.until(one + `.querySelector(".st.failed") && !` + one + `.querySelector(".st.done")`)
	r.click(says(".ilist a", "Refund two"))
	r.until(says(".ap .st.done", "Executed") + ` && ` + says(".ap .fact", "1 of 1 other call of refund was approved"))
}

// decidedElsewhere: the card on display stays when somebody else decides its call, and no card is approved
// before it was on display for a while.
func decidedElsewhere(r *room) {
	ids := r.waitsFor("Water the plants", "Feed the cat")
	shown := ids[0]
	r.open("approvals/" + shown + "?skill=create_task")
	r.until(says(".args dd", "Water the plants") + ` && document.querySelector('.ilist a[href*="` + ids[1] + `"]')`)
	r.press("Escape")
	r.until(`location.pathname === "/engine/approvals"`)
	r.ask(http.MethodPost, "/approvals/"+shown+"/reject", map[string]any{"reason": "not now"}, nil)
	r.until(`!document.querySelector('.ilist a[href*="` + shown + `"]')`)
	r.until(`document.querySelector(".ap")?.dataset.id === "` + shown + `" && document.querySelector(".ap .st").textContent.includes("Rejected")`)
	// The timers of a card are held, so that it never was on display for long enough.
	r.must(r.Eval(r.ctx, `(() => {
		const later = window.setTimeout;
		window.held = [];
		window.setTimeout = (fn, ms, ...of) => ms === 600 ? held.push(fn) : later(fn, ms, ...of);
	})()`, nil))
	r.press("j")
	r.until(`document.querySelector(".ap").dataset.id !== "` + shown + `" && held.length`)
	r.until(says(".ap .foot button", "Approve") + ".disabled")
	r.press("a")
	r.must(r.Eval(r.ctx, `held.forEach(fn => fn())`, nil))
	r.until(`!` + says(".ap .foot button", "Approve") + ".disabled")
	if eval[bool](r, `!!`+says(".toast", "Approved")) {
		r.Error("a card that nobody could read was approved")
	}
}

func objectives(r *room) {
	r.open("objectives")
	r.press("c")
	r.asks("New objective")
	r.write("Learn to juggle")
	r.press("Enter")
	r.until(says(".det h2", "Learn to juggle"))
	r.until(row("Learn to juggle"))
	r.click(says(".det button", "Pause"))
	r.asks("Learn to juggle")
	r.click(says("dialog button[type=submit]", "Pause"))
	r.until(says(".det .st", "Paused"))
	r.click(says(".toast button", "Undo"))
	r.until(says(".det .st", "Active"))
	r.click(says(".det button", "Change plan"))
	r.asks("Change the plan")
	r.fill("dialog [name=steps]", "Take two balls")
	r.click(says("dialog button", "Replace plan"))
	r.until(says(".steps-plan li", "Take two balls"))
	r.until(row("Learn to juggle") + ".textContent.includes('0 of 1')")
	r.click(says(".det button", "Delete"))
	r.asks("Its plan goes with it")
	r.until(`document.querySelector("dialog [type=submit]").disabled`)
	r.fill("dialog input", "Learn to juggle")
	r.expects("404") // an event may have the page read it once more when it is gone
	r.press("Enter")
	r.until(`location.pathname === "/engine/objectives" && !` + row("Learn to juggle"))
}

func automations(r *room) {
	var made struct{ ID string }
	r.ask(http.MethodPost, "/automations", map[string]any{
		"name": "Look around", "skill": "query_activity", "input": map[string]any{}, "schedule": map[string]any{"cron": "0 9 1 1 *", "timeZone": "Europe/Berlin"},
	}, &made)
	r.open("automations")
	r.must(r.Resize(r.ctx, browser.Phone)) // which has room for the name
	r.until(`innerWidth === 390 && ` + row("Look around") + `.cells[0].offsetWidth > 220 && document.querySelector(".tbl th").scrollWidth <= document.querySelector(".tbl th").clientWidth`)
	r.must(r.Resize(r.ctx, browser.Desktop))
	r.until(`innerWidth === 1440`)
	r.click(row("Look around") + ".querySelector('a')")
	r.until(says(".det .kv", "0 9 1 1 * · Europe/Berlin"))
	r.click(says(".det button", "Run now"))
	r.until(says(".toast", "Ran: Look around"))
	r.click(says(".det button", "Disable"))
	r.asks("Look around")
	r.click(says("dialog button[type=submit]", "Disable"))
	r.until(says(".det .ph .st", "Disabled"))
	r.click(says(".toast button", "Undo"))
	r.until(says(".det .ph .st", "Enabled"))
	r.click(says(".det button", "Edit"))
	r.asks("Edit “Look around”")
	r.fill("dialog [name=cron]", "every now and then")
	r.expects("422")
	r.click(says("dialog button", "Save"))
	r.until(`document.querySelector("dialog [name=cron]")?.getAttribute("aria-invalid") === "true" && document.querySelector("dialog .err")`)
	r.press("Escape")
	r.until(`!document.querySelector("dialog[open]")`)
}

// hintsApart waits until the hints in the open dialog leave room for the ring of the field above them.
func (r *room) hintsApart() {
	r.Helper()
	r.until(`(all => all.length > 0 && all.every(e => e.getBoundingClientRect().top - e.previousElementSibling.getBoundingClientRect().bottom >= 5))(
		[...document.querySelectorAll("dialog[open] .field:not(.check) > small")])`)
	r.until(`[...document.querySelectorAll("dialog[open] .field > label")].every(e => e.offsetHeight < 30)`) // "optional" stands beside the name
}

func agents(r *room) {
	r.open("agents")
	r.click(button("Register agent"))
	r.asks("Register an agent")
	r.hintsApart()
	r.write("juggler")
	r.press("Tab")
	r.write("balls, clubs")
	r.press("Enter")
	r.until(says("dialog[open]", "The token of juggler"))
	r.click(says("dialog button", "Done"))
	r.until(says(".det h2", "juggler"))
	r.until(row("juggler") + ".textContent.includes('balls, clubs')")
	r.until(row("juggler") + ".textContent.includes('never')")
	r.click(says(".det button", "Terminate"))
	r.asks("Terminate juggler?")
	r.fill("dialog [name=reason]", "the circus is over")
	r.press("Enter")
	r.until(says(".det .ph .st", "Terminated"))
	r.until(`!` + says(".det button", "Edit"))
	// Red is who is lost: not who has ended, nor who was started for a task that waits for a person.
	r.must(r.Eval(r.ctx, noting+`;window.answer = (url) => {
		if (!/\/agents[?]/.test(url)) return;
		const of = (name, status, spawner, openTasks) => ({id: name, name, status, spawner, openTasks, health: "stale", lastSeenAt: "2026-01-02T03:04:05Z", capabilities: [],
			coordinatorEnabled: true, maxConcurrentTasks: 2, heartbeatIntervalSeconds: 30, staleThresholdSeconds: 180, createdBy: "a", createdAt: "2026-01-02T03:04:05Z", updatedAt: "2026-01-02T03:04:05Z"});
		return Promise.resolve(new Response(JSON.stringify({nextCursor: null, items: [
			of("waits", "WORKING", "builtin", 1), of("ended", "TERMINATED", "pull", 0), of("silent", "WORKING", "pull", 1), of("crashed", "ERROR", "builtin", 0)]})));
	}`, nil))
	r.visit("lanes")
	r.visit("agents")
	r.until(row("crashed"))
	if red := eval[[]string](r, `[...document.querySelectorAll("table[aria-label=Agents] tr")].filter(e => e.querySelector(".err")).map(e => e.cells[0].textContent)`); !slices.Equal(red, []string{"silent", "crashed"}) {
		r.Errorf("red are %q", red)
	}
}

func memories(r *room) {
	for _, text := range []string{"Visitors like vanilla most", "Visitors dislike liquorice"} {
		r.ask(http.MethodPost, "/memories", map[string]any{"category": "taste", "content": text}, nil)
	}
	r.open("memory?category=taste")
	r.until(`document.querySelectorAll(".tbl tbody tr").length === 2`)
	r.must(r.Resize(r.ctx, browser.Phone)) // which shows two lines of the text, in rows of one height
	r.until(`innerWidth === 390 && (e => e.offsetWidth > 200 && e.scrollHeight <= e.clientHeight && e.closest("tr").offsetHeight <= 45)(` + row("vanilla") + `.querySelector("a"))`)
	r.must(r.Resize(r.ctx, browser.Desktop))
	r.until(`innerWidth === 1440`)
	r.click(row("vanilla") + ".querySelector('a')")
	r.until(says(".det .content", "Visitors like vanilla most"))
	r.click(says(".det button", "Forget"))
	r.asks("Visitors like vanilla most")
	r.click(says("dialog button[type=submit]", "Forget"))
	r.until(`document.querySelectorAll(".tbl tbody tr").length === 1 && location.pathname === "/engine/memory"`)
	r.click(button("With all that match"))
	r.click(says("[role=menuitem]", "Forget all"))
	r.asks("Forget 1 memory?")
	r.fill("dialog input", "tastes change")
	r.press("Enter")
	r.until(says(".empty", "No memory matches"))
}

// Each panel says what it is while it has nothing, and what is wrong where it can't be read.
func emptyPanels(r *room) {
	r.open("overview")
	for _, path := range []string{"tasks?q=xyzzy", "objectives?q=xyzzy", "automations?q=xyzzy", "agents?q=xyzzy", "memory?q=xyzzy", "approvals?skill=xyzzy", "tasks?view=list&q=xyzzy"} {
		r.visit(path)
		r.until(says(".empty", "matches"))
		r.until(says(".empty button", "Clear filters") + ` && ` + says(".empty", "without the filters"))
	}
	r.expects("404")
	none := "00000000-0000-7000-8000-000000000000"
	for _, path := range []string{"tasks/", "objectives/", "automations/", "agents/", "memory/", "approvals/"} {
		r.visit(path + none)
		r.until(says(".empty b", "is not there"))
	}
	r.expects("400")
	r.expects("422")
	r.visit("tasks?minPriority=99&view=list")
	r.until(says(".empty[role=alert]", "Tasks could not be read") + `?.textContent.includes("minPriority: ")`)
	r.visit("activity?since=garbage")
	r.until(says(".empty[role=alert]", "since: "))
}
