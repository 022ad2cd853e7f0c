package engineroom_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// hostileTexts are what models, visitors and webhooks may write.
var hostileTexts = []string{
	`<script>window.ran = 1</script>`,
	`<img src=x onerror="window.ran = 2">`,
	`"><svg onload="window.ran = 3">`,
	`<iframe src="javascript:parent.ran = 4"></iframe>`,
	`javascript:window.ran=5`,
	`<a href="javascript:window.ran=6">click</a>`,
	`[click](javascript:window.ran=7)`,
	`![x](https://outside.example/pixel.png)`,
	`<style>body { display: none }</style>`,
	`<link rel="stylesheet" href="https://outside.example/x.css">`,
	`<base href="https://outside.example/">`,
	`<meta http-equiv="refresh" content="0;url=https://outside.example/">`,
	`<form action="https://outside.example/"><button>Send</button></form>`,
	`<object data="https://outside.example/x"></object>`,
	`{{constructor.constructor("window.ran = 15")()}}`,
	`${window.ran = 16}`,
	`</title><script>window.ran = 17</script>`,
	`<math><mtext></p><img src=x onerror=window.ran=18></mtext></math>`,
	"\u202eesrever\u202c and \u2066isolated\u2069 and zero\u200bwidth",
	`<template><img src=x onerror=window.ran=20></template>` + strings.Repeat("W", 120),
}

// shortened returns at most n bytes of a text, without a broken character at the end.
func shortened(text string, n int) string { return strings.ToValidUTF8(text[:min(len(text), n)], "") }

// hostile: texts of models, visitors, agents and webhooks, in each field that a panel shows, are shown as
// text. They run nothing and load nothing. Each text has rows of its own, and the last rows have all of them
// in each of their fields.
func hostile(r *room) {
	var ids hostileRows
	for i, text := range append(slices.Clone(hostileTexts), strings.Join(hostileTexts, " ")) {
		ids = r.seedHostile(i, text)
	}
	for range 2 { // runs, failures and heals of what was made
		r.ask("POST", "/heartbeat/run", map[string]any{"wait": true}, nil)
	}
	before := len(r.Requests())
	visit := slices.Clone(pages)
	visit = append(visit, "traces/"+ids.trace, "tasks/"+ids.task, "tasks/"+ids.failed, "tasks?view=list", "objectives/"+ids.objective, "memory/"+ids.memory,
		"threads/"+ids.thread, "agents/"+ids.agent, "automations/"+ids.automation, "skills/"+ids.skill, "webhooks?view=endpoints", "webhooks?view=sources",
		"webhooks/"+ids.delivery, "approvals?status=decided", "spend?split=operation", "spend?split=agent", "spend?by=skill", "lanes/hostile:20", "activity?q=window.ran", "activity?status=error")
	shown := []string{
		"tasks/" + ids.task, "tasks/" + ids.failed, "objectives/" + ids.objective, "memory/" + ids.memory, "threads/" + ids.thread, "agents/" + ids.agent,
		"automations/" + ids.automation, "skills/" + ids.skill, "traces/" + ids.trace, "lanes", "audit", "keys", "failures", "webhooks?view=endpoints",
	}
	r.open("overview")
	for _, page := range visit {
		r.visit(page)
		r.settles()
		var got struct {
			Ran    any
			Alien  []string
			Turned bool
		}
		r.must(r.Eval(r.ctx, `({ran: window.ran ?? null, turned: /[\u202a-\u202e]/.test(document.body.textContent), alien: [...document.querySelectorAll(
			"#app script, #app img, #app iframe, #app style, #app link, #app base, #app meta, #app object, #app math, #app template, #app form[action], #app a[href^='javascript' i], #app [onerror], #app [onload]")].map(e => e.outerHTML.slice(0, 120))})`, &got))
		if got.Ran != nil || len(got.Alien) > 0 || got.Turned {
			r.Errorf("%s: ran %v, made %q, turned its text around: %t", page, got.Ran, got.Alien, got.Turned)
		}
		if slices.Contains(shown, page) { // else nothing was tried
			r.until(`document.querySelector("#main").textContent.includes("window.ran")`)
		}
	}
	for _, url := range r.Requests()[before:] {
		if !strings.HasPrefix(url, r.URL+"/") {
			r.Errorf("a page asked %s", url)
		}
	}
}

// hostileRows are ids of rows with hostile texts.
type hostileRows struct {
	objective, task, failed, memory, thread, agent, automation, skill, delivery, trace string
}

// seedHostile makes rows with a text in each of their fields, by the API.
func (r *room) seedHostile(i int, text string) (ids hostileRows) {
	r.Helper()
	type fields = map[string]any
	var made struct{ ID, Token, Secret, TraceID string }
	make := func(method, path string, body any) string {
		r.Helper()
		made.ID = ""
		r.ask(method, path, body, &made)
		return made.ID
	}
	line := strings.ReplaceAll(shortened(text, 100), "\n", " ")
	ids.objective = make("POST", "/objectives", fields{"title": shortened(text, 250), "description": text, "doneCriterion": text})
	r.ask("PUT", "/objectives/"+ids.objective+"/steps", fields{"steps": []any{fields{"title": shortened(text, 200), "doneCriterion": shortened(text, 500), "skill": "save_memory",
		"inputs": fields{"category": line, "content": text}}}}, nil)
	r.ask("POST", "/objectives/"+make("POST", "/objectives", fields{"title": shortened(text, 250)})+"/pause", fields{"reason": shortened(text, 450)}, nil)
	ids.memory = make("POST", "/memories", fields{"category": line, "content": text})
	make("POST", "/projects", fields{"name": fmt.Sprint(i, " ", shortened(text, 200)), "description": text})
	ids.skill = fmt.Sprintf("hostile_%d", i)
	r.ask("POST", "/skills", fields{"name": ids.skill, "kind": "http", "description": shortened(text, 4000), "config": fields{"url": "https://hostile.invalid/", "method": "GET"}}, nil)
	ids.automation = make("POST", "/automations", fields{"name": fmt.Sprint(i, " ", shortened(text, 150)), "skill": ids.skill, "input": fields{}, "schedule": fields{"cron": "0 9 1 1 *"}})
	r.ask("POST", "/automations/"+ids.automation+"/run", fields{}, nil)
	r.ask("POST", "/skills/"+ids.skill+"/disable", fields{"reason": shortened(text, 450)}, nil)

	ids.agent = fmt.Sprintf("00000000-0000-7000-8000-0000000b%04d", i)
	capability := fmt.Sprintf("hostile-%d", i)
	r.ask("PUT", "/agents/"+ids.agent, fields{"name": shortened(text, 200), "model": shortened(text, 200), "capabilities": []string{capability}}, &made)
	ids.failed = make("POST", "/agent-tasks", fields{"title": shortened(text, 250), "description": text, "taskType": line, "tags": []string{shortened(text, 40)}, "maxRetries": 0,
		"inputContext": fields{"of": text}, "metadata": fields{"requiredCapabilities": []string{capability}, "note": text}})
	r.ask("POST", "/agents/"+ids.agent+"/claim", nil, nil)
	task := "/agent-tasks/" + ids.failed
	r.ask("PATCH", task+"/progress", fields{"progressPercent": 10, "currentStep": shortened(text, 900), "checkpointData": fields{"of": text}}, nil)
	r.ask("POST", task+"/usage", fields{"inputTokens": 100 * (i + 1), "outputTokens": 10, "model": shortened(text, 500), "operation": line}, nil)
	r.ask("POST", task+"/fail", fields{"error": text, "stackTrace": text, "retryable": false}, nil)
	ids.task = make("POST", "/agent-tasks", fields{"title": shortened(text, 250), "description": text,
		"metadata": fields{"requiredCapabilities": []string{"nobody's"}}}) // else it may be done before it is cancelled
	r.ask("POST", "/agent-tasks/"+ids.task+"/cancel", fields{"reason": shortened(text, 450)}, nil)

	execution := make("POST", "/executions", fields{"agent": shortened(text, 200), "input": fields{"task": text}})
	ids.thread = make("POST", "/threads", fields{"channel": "log", "address": fmt.Sprint(i, " ", line)})
	r.ask("POST", "/threads/"+ids.thread+"/messages", fields{"body": text}, nil)
	r.ask("POST", "/threads/"+ids.thread+"/send", fields{"executionId": execution, "body": text}, nil)
	r.ask("POST", "/executions/"+execution+"/fail", fields{"reason": shortened(text, 450)}, nil)
	r.ask("POST", fmt.Sprintf("/lanes/hostile:%d/acquire", i), fields{"holder": shortened(text, 250), "ttlSeconds": 600}, nil)
	if i%4 == 0 { // a workspace has few
		r.ask("POST", "/webhook-endpoints", fields{"url": fmt.Sprintf("https://hostile-%d.invalid/", i), "events": []string{"agent.stale"}, "description": shortened(text, 900)}, nil)
	}
	r.ask("POST", "/api-keys", fields{"name": shortened(text, 190), "role": "MEMBER", "scopes": []string{"agent-tasks:read"}}, nil)
	r.ask("POST", "/kill-switches", fields{"scope": "agent", "target": fmt.Sprint("nobody-", i), "reason": shortened(text, 450)}, nil)
	r.ask("PUT", fmt.Sprintf("/personas/hostile-%d", i), fields{"displayName": line, "instructions": text, "surfaces": []string{"chat"}}, nil)

	if i == 0 {
		r.ask("POST", "/webhook-sources", fields{"name": "hostile", "kind": "token", "rules": []any{fields{"event": "*", "then": fields{"skill": "save_memory",
			"with": fields{"category": "webhook", "content": "{{body.text}}"}}}}}, &made)
		r.hostileSecret = made.Secret
	}
	ids.delivery = r.webhook("hostile", r.hostileSecret, fields{"event": line, "text": text, text: []string{text}})
	r.ask("POST", "/operate", fields{"message": text}, &made)
	ids.trace = made.TraceID
	return ids
}

// webhook sends a webhook with the token of its source, and returns the id of the delivery.
func (r *room) webhook(source, secret string, body any) string {
	r.Helper()
	text, err := json.Marshal(body)
	r.must(err)
	q, err := http.NewRequestWithContext(r.ctx, http.MethodPost, r.URL+"/webhooks/default/"+source, bytes.NewReader(text))
	r.must(err)
	q.Header.Set("Authorization", "Bearer "+secret)
	q.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(q)
	r.must(err)
	defer answer.Body.Close()
	var got struct{ ID string }
	r.must(json.NewDecoder(answer.Body).Decode(&got))
	if answer.StatusCode >= http.StatusBadRequest {
		r.Fatalf("the webhook is answered with %s", answer.Status)
	}
	return got.ID
}
