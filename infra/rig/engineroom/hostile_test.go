package engineroom_test

import "strings"

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

// hostile: texts that look like markup are shown as text. They run nothing and load nothing.
func hostile(r *room) {
	for _, text := range hostileTexts {
		r.ask("POST", "/objectives", map[string]any{"title": text, "description": text}, nil)
		r.ask("POST", "/agent-tasks", map[string]any{"title": text, "description": text, "taskType": text[:min(len(text), 60)]}, nil)
		r.ask("POST", "/memories", map[string]any{"category": "note", "content": text}, nil)
	}
	r.ask("POST", "/operate", map[string]any{"message": strings.Join(hostileTexts, "\n")}, nil)
	var spoken struct{ TraceID string }
	r.ask("POST", "/operate", map[string]any{"message": hostileTexts[1]}, &spoken)
	before := len(r.Requests())
	for _, page := range []string{"overview", "activity", "traces", "traces/" + spoken.TraceID, "tasks", "objectives", "memory", "threads", "audit"} {
		r.open(page)
		var got struct {
			Ran   any
			Alien []string
		}
		r.must(r.Eval(r.ctx, `({ran: window.ran ?? null, alien: [...document.querySelectorAll(
			"#app script, #app img, #app iframe, #app style, #app link, #app base, #app meta, #app object, #app math, #app template, #app form[action], #app a[href^='javascript']")].map(e => e.outerHTML.slice(0, 120))})`, &got))
		if got.Ran != nil || len(got.Alien) > 0 {
			r.Errorf("%s: ran %v, made %q", page, got.Ran, got.Alien)
		}
	}
	r.open("objectives")
	r.until(says("#main", `<script>window.ran = 1</script>`))
	for _, url := range r.Requests()[before:] {
		if !strings.HasPrefix(url, r.URL+"/") {
			r.Errorf("a page asked %s", url)
		}
	}
}
