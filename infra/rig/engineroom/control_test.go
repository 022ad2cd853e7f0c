package engineroom_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// controlTests are the tests of Lanes, Threads, Skills, Spend, Webhooks and the pages of the workspace.
var controlTests = []func(*room){
	laneReleased, threadUnlocked, sendsAgain, healUndone, skillStopped, skillFilters, budgetsMoved, webhookIn, webhookOut, memberAudited, keysAndSecrets, settingsChanged,
}

type fields map[string]any

const asked = `document.querySelector("dialog[open]")`

// fillIn types a text into a field of the open dialog, instead of what stands in it.
func (r *room) fillIn(selector, text string) {
	r.Helper()
	field := asked + `.querySelector(` + quoted(selector) + `)`
	r.until(field)
	r.must(r.Eval(r.ctx, field+`.focus(), `+field+`.select()`, nil))
	r.write(text)
}

// use presses a button or follows a link with the keyboard: what moves meanwhile does not matter.
func (r *room) use(element string) {
	r.Helper()
	r.until(element)
	r.must(r.Eval(r.ctx, `(`+element+`).focus()`, nil))
	r.press("Enter")
}

// choose takes the option of a select in the open dialog whose value an expression of s, the select, gives.
func (r *room) choose(name, value string) {
	r.Helper()
	of := asked + `.querySelector("[name=` + name + `]")`
	r.until(of)
	r.must(r.Eval(r.ctx, `(s => { s.value = `+value+`; s.dispatchEvent(new Event("change", {bubbles: true})) })(`+of+`)`, nil))
}

// doIt presses the button of the open dialog that does it, and waits until the dialog is closed.
func (r *room) doIt() {
	r.Helper()
	r.use(asked + `.querySelector(".foot button:last-of-type")`)
	r.until(`!` + asked)
}

// toasts waits for a toast.
func (r *room) toasts(words string) {
	r.Helper()
	r.until(says(".toast", words))
}

func rowWith(words string) string { return says("#main tbody tr", words) }

func within(element, selector string) string {
	return `(` + element + `)?.querySelector(` + quoted(selector) + `)`
}

// A lane is seen with its holder, and released by force, with a reason.
func laneReleased(r *room) {
	held := says(".lanes tbody tr", "room:deploy")
	r.open("lanes")
	r.ask(http.MethodPost, "/lanes/room:deploy/acquire", fields{"holder": "juan", "ttlSeconds": 3000}, nil) // no event tells of it
	r.until(held + `?.textContent.includes("juan") && document.querySelector(".strip svg")`)
	r.until(`(n => new RegExp("; " + n + " (is|are) held now$").test(document.querySelector(".strip svg").ariaLabel))(
		document.querySelectorAll(".lanes tbody tr").length)`)
	r.use(says("button", "Show as table"))
	r.until(says(".strip-table tbody tr", "room:deploy") + `?.textContent.includes("running")`)
	r.use(says(".f", "Somebody waits"))
	r.until(`location.search === "?waiting=true" && !` + held)
	r.must(r.Eval(r.ctx, `history.back()`, nil))
	r.until(held)
	r.use(`document.querySelector('button[aria-label="Release room:deploy"]')`)
	r.fillIn("input", "juan has gone home")
	r.doIt()
	r.toasts("room:deploy is released")
	r.until(`!` + held)
	var why struct{ Held bool }
	r.ask(http.MethodGet, "/lanes/room:deploy/why", nil, &why)
	if why.Held {
		r.Error("the lane is still held")
	}
}

// A conversation shows who has it and what is queued; what people write is text. Its lock is ended by
// force, and the queue moves on.
func threadUnlocked(r *room) {
	const hostile = `<img src=x onerror="alert(1)"><script>alert(2)</script>`
	var one, two struct{ ID string }
	r.ask(http.MethodPost, "/executions", fields{"agent": "collector"}, &one)
	r.ask(http.MethodPost, "/executions", fields{"agent": "reminder"}, &two)
	var t struct{ ID string }
	r.ask(http.MethodPost, "/threads", fields{"channel": "log", "address": "room-ada"}, &t)
	at := "/threads/" + t.ID
	r.ask(http.MethodPost, at+"/send", fields{"executionId": one.ID, "body": "Which documents do you have?"}, nil)
	r.ask(http.MethodPost, at+"/messages", fields{"body": hostile}, nil)
	r.ask(http.MethodPost, at+"/send", fields{"executionId": two.ID, "body": "See you on Monday."}, nil)
	r.open("threads/" + t.ID)
	r.until(says(".msg", hostile))
	r.until(says(".msg.out", "Which documents"))
	r.until(says(".msg.ghost", "Queued, 1st") + `?.textContent.includes("See you on Monday.")`)
	r.until(says(".lockbar", "Held"))
	r.use(says(".lockbar button", "Force unlock"))
	r.fillIn("input", "the run hangs")
	r.doIt()
	r.toasts("is free")
	r.until(`!document.querySelector(".msg.ghost") && ` + says(".msg.out", "See you on Monday."))
	r.use(says(".seg button", "Stale"))
	r.until(`location.search === "?lock=stale"`)
}

// sendsAgain: a message that has failed, or of which nobody knows, may be sent again, and no other.
func sendsAgain(r *room) {
	var t struct{ ID string }
	r.ask(http.MethodPost, "/threads", fields{"channel": "log", "address": "room-eve"}, &t)
	r.open("overview")
	r.must(r.Before(r.ctx, noting+`;window.answer = (url) => /\/outbox[?]/.test(url) ? Promise.resolve(new Response(JSON.stringify({nextCursor: null, items: [
		["failed"], ["uncertain"], ["expired", "2026-01-02T03:04:05Z"], ["uncertain", "2026-01-02T03:04:05Z"], ["dead"]].map(([status, expiresAt], i) => (
		{id: String(i), body: status + (expiresAt ? " too late" : ""), status, attempts: 1, dueAt: "2026-01-02T03:04:05Z", createdAt: "2026-01-02T03:04:05Z", expiresAt}))}))) : undefined`))
	r.open("threads/" + t.ID)
	r.until(`document.querySelectorAll(".msg.unsent").length === 5`)
	if may := eval[[]string](r, `[...document.querySelectorAll(".msg.unsent")].filter(e => e.querySelector("button")).map(e => e.querySelector(".text").textContent).sort()`); !slices.Equal(may, []string{"failed", "uncertain"}) {
		r.Errorf("may be sent again: %q", may)
	}
}

// A skill that self-healing disabled is enabled again by a person.
func healUndone(r *room) {
	r.ask(http.MethodPost, "/skills", fields{
		"name": "room_flaky", "kind": "http", "description": "fails", "effect": "read", "config": fields{"url": "https://room.invalid/", "method": "GET"},
	}, nil)
	for range 3 {
		r.ask(http.MethodPost, "/skills/room_flaky/run", fields{}, nil)
	}
	r.ask(http.MethodPost, "/heartbeat/run", fields{}, nil)
	r.open("skills")
	r.until(says(".callout", "room_flaky"))
	r.until(rowWith("room_flaky") + `?.textContent.includes("Disabled by self-healing")`)
	may := eval[[]string](r, `[...`+says(".callout", "room_flaky")+`.querySelectorAll("button")].map(b => b.textContent)`)
	if !slices.Equal(may, []string{"Undo"}) {
		r.Errorf("of a skill that is disabled the page offers %q", may)
	}
	r.must(r.Resize(r.ctx, laptop)) // which shows all that can be done with it
	r.until(`innerWidth === 1280 && [...` + rowWith("room_flaky") + `.querySelectorAll("button")].length === 2` +
		` && (e => e.scrollWidth <= e.clientWidth)(` +
		rowWith("room_flaky") + `.closest(".scroll"))`)
	r.use(`[...` + says(".callout", "room_flaky") + `.querySelectorAll("button")].find(b => b.textContent === "Undo")`)
	r.doIt()
	r.toasts("room_flaky is enabled again")
	r.until(`!` + says(".callout", "room_flaky") + ` && ` + rowWith("room_flaky") + `?.textContent.includes("Enabled")`)
}

// A skill is stopped and released by its kill switch, and disabled and enabled again by Undo.
func skillStopped(r *room) {
	r.ask(http.MethodPost, "/skills", fields{
		"name": "room_stop", "kind": "http", "description": "is stopped", "effect": "read", "config": fields{"url": "https://room.invalid/", "method": "GET"},
	}, nil)
	r.open("skills?q=room_stop")
	r.use(`document.querySelector('button[aria-label="Stop room_stop"]')`)
	r.fillIn("input", "it calls too much")
	r.doIt()
	r.until(says(".callout", "it calls too much"))
	r.until(rowWith("room_stop") + `?.textContent.includes("Stopped")`)
	r.use(`document.querySelector('button[aria-label="Release room_stop"]')`)
	r.until(`!` + says(".callout", "it calls too much"))
	r.use(`document.querySelector('button[aria-label="Disable room_stop"]')`)
	r.fillIn("input", "not needed")
	r.doIt()
	r.until(rowWith("room_stop") + `?.textContent.includes("Disabled")`)
	r.use(says(".toast button", "Undo"))
	r.until(rowWith("room_stop") + `?.textContent.includes("Enabled")`)
	r.use(says("#main td a", "room_stop"))
	r.until(`location.pathname === "/engine/skills/room_stop" && ` + says("aside", "is stopped"))
	r.until(`document.querySelector('.det .foot button[aria-label="Stop room_stop"]')`) // on a phone it is there alone
	r.press("Escape")
	r.until(`location.pathname === "/engine/skills" && location.search === "?q=room_stop"`)
}

// Filters stand in the address; back and forward follow them.
func skillFilters(r *room) {
	r.open("skills")
	r.use(says(".f", "builtin"))
	r.until(`location.search === "?kind=builtin"`)
	r.use(says(".f", "Reads"))
	r.until(`location.search === "?kind=builtin&effect=read" && ` + rowWith("query_activity") + ` && !` + rowWith("save_memory"))
	r.must(r.Eval(r.ctx, `history.back()`, nil))
	r.until(`location.search === "?kind=builtin" && ` + rowWith("save_memory"))
	r.must(r.Eval(r.ctx, `history.forward()`, nil))
	r.until(`location.search.includes("effect=read") && !` + rowWith("save_memory"))
	r.open("skills?q=nothing-has-this-name")
	r.use(says(".empty button", "Clear filters"))
	r.until(`location.search === "" && ` + rowWith("save_memory"))
}

// A budget is created, changed, and gets tokens of another one; what is left and used is drawn and told.
func budgetsMoved(r *room) {
	r.open("spend")
	r.use(says("header button", "New budget"))
	r.choose("scope", `"agent"`)
	r.fillIn("[name=scopeId]", "room-agent")
	r.fillIn("[name=allocated]", "1000000")
	r.doIt()
	r.toasts("1.00 M")
	r.until(rowWith("Agent room-agent"))
	r.use(`document.querySelector('button[aria-label="Change Agent room-agent"]')`)
	r.fillIn("[name=allocated]", "-1")
	r.use(asked + `.querySelector(".foot .primary")`)
	r.until(says("dialog[open] .err", "allocated")) // a refusal stands in the dialog
	r.expects("422")
	r.fillIn("[name=allocated]", "2000000")
	r.doIt()
	r.until(rowWith("Agent room-agent") + `?.textContent.includes("2.00 M")`)
	var other struct{ ID string }
	month := time.Now().UTC()
	first := time.Date(month.Year(), month.Month(), 1, 0, 0, 0, 0, time.UTC)
	r.ask(http.MethodPost, "/budgets", fields{
		"scope": "agent", "scopeId": "room-other", "allocated": 500_000, "periodStart": first, "periodEnd": first.AddDate(0, 1, 0),
	}, &other)
	r.open("spend")
	r.use(`document.querySelector('button[aria-label="Move tokens to Agent room-other"]')`)
	r.choose("from", `[...s.options].find(o => o.text.includes("room-agent")).value`)
	r.fillIn("[name=amount]", "250000")
	r.doIt()
	r.until(rowWith("Agent room-other") + `?.textContent.includes("750,000") && ` + rowWith("Agent room-agent") + `?.textContent.includes("1.75 M")`)
	r.use(says("#main td a", "Agent room-other"))
	r.until(`location.search.includes("` + other.ID + `") && ` + says(".panel h2", "Agent room-other budget"))
	r.until(`document.querySelector(".burn canvas") && document.querySelector(".burn").ariaLabel.includes("are left")`)
	r.until(`document.querySelector(".days svg")`)
	r.use(says(".seg button", "Surface"))
	r.until(`location.search.includes("split=surface")`)
	r.use(says(".legend button", "Show as table"))
	r.until(`document.querySelector(".days table tbody tr")`)
}

// A source is created, which shows its secret once. What it sends is listed and opened, as text, and
// done again.
func webhookIn(r *room) {
	r.open("webhooks?view=sources")
	r.use(says("#main button", "New source"))
	r.fillIn("[name=name]", "room")
	r.choose("kind", `"hmac"`)
	r.use(asked + `.querySelector(".foot .primary")`)
	r.until(says("dialog[open]", "It is shown this once"))
	secret := eval[string](r, asked+`.querySelector("code").textContent`)
	r.use(says("dialog[open] button", "I have kept it"))
	r.until(`!` + asked + ` && ` + rowWith("room"))
	path := eval[string](r, within(rowWith("room"), "code")+`.textContent`)

	body := []byte(`{"text":"<script>alert(1)</script>"}`)
	sign := hmac.New(sha256.New, []byte(secret))
	sign.Write(body)
	post, err := http.NewRequestWithContext(r.ctx, http.MethodPost, r.URL+"/"+strings.TrimPrefix(path, "/"), bytes.NewReader(body))
	r.must(err)
	post.Header.Set("X-Signature", hex.EncodeToString(sign.Sum(nil)))
	post.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(post)
	r.must(err)
	r.must(answer.Body.Close())
	if answer.StatusCode != http.StatusAccepted {
		r.Fatalf("the webhook was answered with %s", answer.Status)
	}
	r.use(within(rowWith("room"), "a"))
	r.until(`location.search.startsWith("?sourceId=")`)
	r.click(rowWith("Done"))
	r.until(says("aside .code", "<script>alert(1)</script>"))
	r.use(says("aside button", "Redeliver"))
	r.toasts("done again")
}

// An endpoint is created and disabled, and what could not be delivered says why.
func webhookOut(r *room) {
	r.open("webhooks?view=endpoints")
	r.use(says("#main button", "New endpoint"))
	r.fillIn("[name=url]", "https://room-endpoint.invalid/hook")
	r.use(asked + `.querySelector(".foot .primary")`)
	r.until(says("dialog[open]", "It is shown this once"))
	r.use(says("dialog[open] button", "I have kept it"))
	r.until(rowWith("room-endpoint.invalid"))
	r.use(`document.querySelector('button[aria-label="Disable room-endpoint.invalid"]')`)
	r.until(rowWith("room-endpoint.invalid") + `?.textContent.includes("Disabled")`)
	r.use(`document.querySelector('button[aria-label="Delete room-endpoint.invalid"]')`)
	r.doIt()
	r.until(`!` + rowWith("room-endpoint.invalid"))
}

// A person is added, gets another role, and is removed; the audit tells all of it.
func memberAudited(r *room) {
	r.open("members")
	r.use(says("header button", "Add a member"))
	r.fillIn("[name=email]", "room@shop.example")
	r.doIt()
	r.until(rowWith("room@shop.example") + `?.textContent.includes("Member")`)
	r.must(r.Eval(r.ctx, rowWith("room@shop.example")+`.querySelector("button").focus()`, nil))
	r.until(`getComputedStyle(` + rowWith("room@shop.example") + `.querySelector(".acts")).opacity === "1"`)
	r.barriers("a row of members with its actions")
	r.use(`document.querySelector('button[aria-label="Change the role of room@shop.example"]')`)
	r.choose("role", `"ADMIN"`)
	r.doIt()
	r.until(rowWith("room@shop.example") + `?.textContent.includes("Admin")`)
	r.use(`document.querySelector('button[aria-label="Remove room@shop.example"]')`)
	r.doIt()
	r.until(`!` + rowWith("room@shop.example"))
	r.open("audit")
	r.until(rowWith("member.add") + ` && ` + rowWith("member.update") + ` && ` + rowWith("member.remove"))
	r.open("audit?action=member.add")
	r.until(rowWith("member.add") + ` && !` + rowWith("member.update"))
}

// A key is shown once and revoked; a secret is kept, and deleted when its name is typed.
func keysAndSecrets(r *room) {
	r.open("keys")
	r.use(says("#main button", "New API key"))
	r.fillIn("[name=name]", "room script")
	r.use(asked + `.querySelector(".foot .primary")`)
	r.until(says("dialog[open]", "It is shown this once"))
	r.use(says("dialog[open] button", "I have kept it"))
	r.use(`document.querySelector('button[aria-label="Revoke room script"]')`)
	r.doIt()
	r.until(rowWith("room script") + `?.textContent.includes("Revoked")`)
	r.open("secrets")
	r.must(r.Eval(r.ctx, noting+`;window.answer = (url) => /\/secrets[?]/.test(url) ? Promise.resolve(new Response('{"items": [], "nextCursor": null}')) : undefined`, nil))
	r.visit("keys")
	r.visit("secrets")
	r.until(says(".empty code", "lanekeeper secrets set")) // where there is none yet
	r.must(r.Eval(r.ctx, `window.answer = undefined`, nil))
	r.use(says("header button", "New secret"))
	r.hintsApart()
	r.until(says("dialog[open] .foot button", "Cancel")) // there is nothing yet that could be kept
	r.fillIn("[name=name]", "room_token")
	r.fillIn("[name=value]", "correct horse battery")
	r.doIt()
	r.until(rowWith("room_token"))
	r.use(`document.querySelector('button[aria-label="Delete room_token"]')`)
	r.until(asked)
	if !eval[bool](r, asked+`.querySelector(".foot button:last-of-type").disabled`) {
		r.Error("a secret is deleted without its name")
	}
	r.fillIn("input", "room_token")
	r.doIt()
	r.until(`!` + rowWith("room_token"))
}

// A setting is changed and stays; one out of bounds is refused at its field.
func settingsChanged(r *room) {
	r.open("settings")
	set := func(value string) {
		r.Helper()
		r.must(r.Eval(r.ctx, `(f => { f.focus(); f.select() })(document.querySelector("[name=approvalHours]"))`, nil))
		r.write(value)
		r.use(says(".save button", "Save 1 change"))
	}
	set("0")
	r.until(says(".changed .err", "1 to 8784"))
	r.expects("422")
	set("48")
	r.toasts("saved")
	r.open("settings")
	r.until(`document.querySelector("[name=approvalHours]").value === "48"`)
	// Money is read and typed in dollars. The page is not left without a word while something is not saved.
	r.visit("overview")
	r.visit("settings")
	r.fill("[name=dayMicroUsd]", "2.5")
	r.until(says(".save button", "Save 1 change"))
	r.use(says(".nav a", "Tasks"))
	r.until(says("dialog[open]", "1 change is not saved"))
	r.use(says("dialog[open] button", "Stay"))
	r.must(r.Eval(r.ctx, `history.back()`, nil))
	r.until(says("dialog[open]", "1 change is not saved"))
	r.use(says("dialog[open] button", "Stay"))
	r.until(`!` + asked + ` && location.pathname === "/engine/settings" && document.querySelector("[name=dayMicroUsd]").value === "2.5"`)
	r.use(says(".save button", "Save 1 change"))
	r.until(`!document.querySelector(".save") && document.querySelector("[name=dayMicroUsd]").value === "2.5"`)
	var me struct{ WorkspaceID string }
	var saved struct{ Settings struct{ DayMicroUsd int64 } }
	r.ask(http.MethodGet, "/me", nil, &me)
	r.ask(http.MethodGet, "/workspaces/"+me.WorkspaceID, nil, &saved)
	if saved.Settings.DayMicroUsd != 2_500_000 {
		r.Errorf("2.5 dollars are saved as %d millionths", saved.Settings.DayMicroUsd)
	}
	r.fill("[name=dayMicroUsd]", "3")
	r.until(says(".save button", "Save 1 change"))
	r.use(says(".nav a", "Tasks"))
	r.use(says("dialog[open] button", "Leave"))
	r.until(`location.pathname === "/engine/tasks"`)
	r.ask(http.MethodPatch, "/workspaces/"+me.WorkspaceID, fields{"settings": fields{"dayMicroUsd": nil}}, nil)
}
