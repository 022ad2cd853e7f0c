package engineroom_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
)

// liveTests are the tests of what the page does while things happen, and while it can't hear of them; and of
// its types.
var liveTests = []func(*room){types, nothingIsMissedAtFirst, typedTextStays, readsAnewBehindTheFirst, readsWhatIsNew, dismissedElsewhere,
	pollsWithoutAStream, hangingServer, topBarFits, wrongClock}

// intercepted lets the test answer requests, or hold them back, from the first one on.
const intercepted = `(() => {
	const ask = window.fetch;
	window.streams = 0;
	window.fetch = async (url, how) => {
		if (how?.headers?.Accept === "text/event-stream") window.streams++;
		const answer = await window.answer?.(String(url), how);
		return answer ?? ask(url, how);
	};
})()`

// nothingIsMissedAtFirst: what happens between the first reads of a page and its first stream is seen.
func nothingIsMissedAtFirst(r *room) {
	r.open("overview") // signs in
	r.must(r.Before(r.ctx, intercepted+`;window.answer = (url, how) =>
		how?.headers?.Accept === "text/event-stream" && !window.released ? new Promise(done => { window.release = () => { window.released = true; done(); }; }) : undefined`))
	r.open("activity")
	r.until(`window.release && document.querySelectorAll("table[aria-label=Activity] tbody tr").length`)
	r.ask("POST", "/objectives", map[string]any{"title": "Too early for the stream", "description": "seen all the same"}, nil)
	r.must(r.Eval(r.ctx, `window.release()`, nil))
	r.until(one(".live.live"))
	r.until(says("table[aria-label=Activity] tbody tr", "objective.create"))
	r.until(`[...document.querySelectorAll("table[aria-label=Activity] tbody tr")].some(e => e.textContent.includes("Too early for the stream"))`)
}

// resets makes the stream begin anew with a reset, once, as after the restore of a backup.
const resets = `(() => {
	let told = false;
	window.answer = (url, how) => {
		if (how?.headers?.Accept !== "text/event-stream" || told) return;
		told = true;
		return new Response("id: 0-0\nevent: reset\ndata: {}\n\n", {headers: {"Content-Type": "text/event-stream"}});
	};
	window.dispatchEvent(new Event("offline")); // ends the stream
	window.dispatchEvent(new Event("online"));
})()`

// typedTextStays: a reset reads all data anew, and what is typed into a form stays.
func typedTextStays(r *room) {
	r.open("overview")
	r.must(r.Before(r.ctx, intercepted))
	r.open("settings")
	r.until(one(".live.live"))
	r.fill(`input[name=beatMemories]`, "7")
	var me struct{ WorkspaceID string }
	r.ask("GET", "/me", nil, &me)
	r.ask("PATCH", "/workspaces/"+me.WorkspaceID, map[string]any{"settings": map[string]any{"toolRetries": 3}}, nil)
	r.must(r.Eval(r.ctx, resets, nil))
	r.until(one(`input[name=toolRetries]`) + `.value === "3"`)
	r.until(one(`input[name=beatMemories]`) + `.value === "7" && ` + says(".save", "Save 1 change"))
	r.use(says(".save button", "Keep as it is"))
	r.until(`!document.querySelector(".save")`)

	id := r.task("Mend the fence", nil)
	r.open("tasks/" + id)
	r.until(one(".live.live"))
	r.click(says(".det button", "Edit"))
	r.fillIn(`input[name=title]`, "Mend the old fence")
	r.ask("PATCH", "/agent-tasks/"+id, map[string]any{"description": "It leans."}, nil)
	r.must(r.Eval(r.ctx, resets, nil))
	r.until(says(".det", "It leans."))
	r.until(one(`dialog input[name=title]`) + `.value === "Mend the old fence"`)
	r.ask("PATCH", "/workspaces/"+me.WorkspaceID, map[string]any{"settings": map[string]any{"toolRetries": nil}}, nil)
}

// readsAnewBehindTheFirst: after a reset nothing stays of any page that a list has read.
func readsAnewBehindTheFirst(r *room) {
	r.open("overview")
	r.must(r.Before(r.ctx, intercepted+`;
		const page = (of, next) => new Response(JSON.stringify({nextCursor: next, items: of.map(n => (
			{id: "task-" + n, title: "Task number " + n + ".", status: "PENDING", priority: 5, tags: [], createdAt: "2026-01-02T03:04:05Z"}))}));
		window.tasks = [1, 2, 3, 4, 5, 6];
		window.tasksAnswer = (url) => !/agent-tasks[?]/.test(url) ? undefined : url.includes("cursor=") ? page(tasks.slice(3), null) : page(tasks.slice(0, 3), "more");
		window.answer = tasksAnswer`))
	r.open("tasks?view=list")
	r.until(one(".live.live"))
	r.until(row("Task number 6."))
	r.must(r.Eval(r.ctx, `tasks = [11, 12, 13, 14, 15]`, nil))
	r.must(r.Eval(r.ctx, strings.Replace(resets, "text/event-stream\" || told) return;", "text/event-stream\" || told) return tasksAnswer(url);", 1), nil))
	r.until(row("Task number 15."))
	r.until(`document.querySelectorAll("table[aria-label=Tasks] tbody tr").length === 5`)
	if left := eval[[]string](r, `[...document.querySelectorAll("table[aria-label=Tasks] tbody tr")].map(e => e.textContent).filter(t => !/number 1[1-5]/.test(t))`); len(left) > 0 {
		r.Errorf("still there: %q", left)
	}
}

// readsWhatIsNew: an event makes the activity read what is new, and not its first page again.
func readsWhatIsNew(r *room) {
	r.open("activity")
	r.until(one(".live.live"))
	r.until(`document.querySelectorAll("table[aria-label=Activity] tbody tr").length > 1`)
	r.must(r.Eval(r.ctx, noting, nil))
	r.ask("POST", "/objectives", map[string]any{"title": "Only this is new", "description": "read alone"}, nil)
	r.until(`[...document.querySelectorAll("table[aria-label=Activity] tbody tr")].some(e => e.textContent.includes("Only this is new"))`)
	if all := eval[[]string](r, `asked.map(a => a.url).filter(url => /activity[?]/.test(url) && !/since=/.test(url))`); len(all) > 0 {
		r.Errorf("read anew: %q", all)
	}
}

// dismissedElsewhere: a failure that another person dismisses leaves the list without a reload.
func dismissedElsewhere(r *room) {
	var run struct{ ID string }
	r.ask("POST", "/executions", map[string]any{"agent": "scout", "input": map[string]any{"title": "Paint the shed"}}, &run)
	r.ask("POST", "/executions/"+run.ID+"/fail", map[string]any{"reason": "no paint"}, nil)
	r.open("failures")
	r.until(one(".live.live"))
	r.until(row("Paint the shed"))
	var all struct{ Items []struct{ ID, At string } }
	r.ask("GET", "/failures", nil, &all)
	for _, f := range all.Items {
		if f.ID == run.ID {
			r.ask("POST", "/failures/execution/"+run.ID+"/dismiss", map[string]any{"at": f.At}, nil)
		}
	}
	r.until("!" + row("Paint the shed"))
}

// pollsWithoutAStream: where streams fail the page asks for events again and again, and says so. Where
// that fails too, it says since when, and comes back by itself.
func pollsWithoutAStream(r *room) {
	r.open("overview")
	r.must(r.Before(r.ctx, intercepted+`;window.answer = (url, how) =>
		how?.headers?.Accept === "text/event-stream" || window.silent && /\/events/.test(url) ? new Response("{}", {status: 502}) : undefined`))
	r.open("activity")
	r.until(says(".live.polling", "Polling"))
	r.ask("POST", "/objectives", map[string]any{"title": "Heard by asking", "description": "without a stream"}, nil)
	r.until(`[...document.querySelectorAll("table[aria-label=Activity] tbody tr")].some(e => e.textContent.includes("Heard by asking"))`)
	r.must(r.Eval(r.ctx, `window.silent = true`, nil))
	r.until(`document.querySelector(".stale")?.textContent.includes("Not live since") && document.querySelector(".app.is-stale") && document.querySelectorAll("table[aria-label=Activity] tbody tr").length`)
	r.must(r.Eval(r.ctx, `window.answer = undefined`, nil))
	r.click(says(".stale .btn", "Try now"))
	r.until(one(".live.live") + ` && !document.querySelector(".stale")`)
}

// hangingServer: where the server keeps its connections and sends nothing, the page says so before a minute is over.
func hangingServer(r *room) {
	r.open("overview")
	r.must(r.Before(r.ctx, intercepted+`;window.answer = (url, how) => {
		if (window.released || !/\/events/.test(url)) return;
		const ends = (no) => how.signal.addEventListener("abort", () => no(how.signal.reason));
		if (how.headers.Accept !== "text/event-stream" || window.streams > 1) return new Promise((_, no) => ends(no));
		return new Response(new ReadableStream({start: (c) => ends((why) => c.error(why))}), {headers: {"Content-Type": "text/event-stream"}});
	}`))
	r.open("lanes")
	r.until(one(".live.live"))
	r.until(says(".live.off", "Not live") + " && " + says(".stale", "Not live since"))
	r.must(r.Eval(r.ctx, `window.released = true`, nil))
	r.until(one(".live.live") + ` && !document.querySelector(".stale")`)
}

// apart is true when no two elements of the top bar overlap, and the word of the state is whole.
const apart = `(() => {
	const boxes = [...document.querySelectorAll(".top .cell, .top .cell b, .top .live, .top .btn")]
		.filter(e => e.offsetWidth).map(e => ({e, box: e.getBoundingClientRect()}));
	const state = document.querySelector(".top .state").getBoundingClientRect(), word = document.querySelector(".top .state b").getBoundingClientRect();
	return document.fonts.status === "loaded" && word.right <= state.right && boxes.every(({box}) => box.right <= innerWidth) && boxes.every((a, i) => boxes.slice(i + 1).every(b =>
		a.e.contains(b.e) || a.box.right <= b.box.left + 0.5 || b.box.right <= a.box.left + 0.5));
})()`

// topBarFits: what the top bar says stands beside one another on a small laptop. When the server ends the
// stream and refuses the next requests, the page says that it is not live before it asks a fifth time.
func topBarFits(r *room) {
	r.open("overview")
	r.must(r.Before(r.ctx, `window.real = window.fetch;`+intercepted+`;window.ended = 0; window.answer = (url, how) => {
		if (/\/overview$/.test(url)) return real(url, how).then(got => got.json()).then(o => new Response(JSON.stringify({...o, state: "not_working",
			object: {kind: "task", id: "one", title: "Compare three offers for vanilla"}, failures: {...o.failures, count: 1001}, approvals: {...o.approvals, count: 120},
			today: {...o.today, microUsd: 123450000, cappedMicroUsd: 123450000, capMicroUsd: 2000000000}})));
		if (!/\/events/.test(url)) return;
		if (window.end?.done) { window.ended++; return Promise.reject(new TypeError("Failed to fetch")); }
		return new Response(new ReadableStream({start(c) { window.end = () => { window.end.done = true; c.close(); }; }}), {headers: {"Content-Type": "text/event-stream"}});
	}`))
	r.open("skills")
	r.until(one(".live.live") + " && " + says(".top .cell", "1001") + " && " + says(".nav a", "Failures") + `.textContent.includes("1001")`)
	fits := func() {
		for _, width := range []int{1241, 1280, 1366, 1440} {
			r.must(r.Resize(r.ctx, browser.Options{Width: width, Height: 800}))
			r.until(fmt.Sprintf(`innerWidth === %d && `, width) + apart)
		}
	}
	fits()
	r.must(r.Eval(r.ctx, `window.end()`, nil))
	r.until(says(".live.off", "Not live") + " && " + says(".stale", "Not live since"))
	if n := eval[int](r, `window.ended`); n > 4 {
		r.Errorf("%d requests were refused before the page said so", n)
	}
	fits()
}

// fast makes the clock of the browser an hour fast.
const fast = `(() => {
	const Right = Date, now = () => Right.now() + 3_600_000;
	window.Date = class extends Right {
		constructor(...of) { super(...(of.length ? of : [now()])); }
		static now() { return now(); }
	};
})();`

// wrongClock: the page goes by the server's clock, whatever that of the browser says.
func wrongClock(r *room) {
	r.ask(http.MethodPost, "/api-keys", fields{"name": "half an hour", "role": "MEMBER", "scopes": []string{"*:read"},
		"expiresAt": time.Now().Add(30 * time.Minute).UTC().Format(time.RFC3339)}, nil)
	r.open("overview")
	r.must(r.Before(r.ctx, intercepted+";"+fast))
	r.open("keys")
	r.until(rowWith("half an hour"))
	if is := eval[string](r, rowWith("half an hour")+`.textContent`); !strings.Contains(is, "Valid") {
		r.Errorf("a key of the next half an hour: %s", is)
	}
	r.open("audit?since=-1h&action=api_key.create")
	r.until(`!document.querySelector("#main [aria-busy=true]") && document.querySelector("#main .empty, #main tbody tr")`)
	if !eval[bool](r, `!!`+rowWith("api_key.create")) {
		r.Error("of the last hour is missing what was done just now")
	}
	r.open("activity?since=-1h&q=api_key.create")
	r.until(`!document.querySelector("#main [aria-busy=true]") && document.querySelector("#main .empty, #main tbody tr")`)
	if !eval[bool](r, `!!`+rowWith("api_key.create")) {
		r.Error("of the activity of the last hour is missing what was done just now")
	}
	r.until(one(".live.live"))
	r.must(r.Eval(r.ctx, `window.answer = (url) => /\/events/.test(url) ? new Response("{}", {status: 502}) : undefined;
		window.dispatchEvent(new Event("offline")); window.dispatchEvent(new Event("online"))`, nil))
	r.until(says(".stale", "Not live since"))
	var hour int
	r.must(r.Eval(r.ctx, `Number(/since (\d\d):/.exec(document.querySelector(".stale").textContent)[1])`, &hour))
	if now := eval[int](r, `new Date(Date.now() - 3_600_000).getHours()`); hour != now && hour != (now+23)%24 {
		r.Errorf("not live since %d h, and it is %d h", hour, now)
	}
}
