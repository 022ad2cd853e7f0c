package widget_test

import (
	"fmt"
	"maps"
	"strings"
)

// texts that want to be more than texts. Each calls ran(), or loads /evil, where it succeeds.
var texts = []string{
	`<script>ran()</script>`,
	`<img src=/evil onerror=ran()>`,
	`"><svg onload=ran()>`,
	`<iframe srcdoc="<script>parent.ran()</script>"></iframe>`,
	`<style>@import "/evil"; .say { background: url(/evil) }</style>`,
	`<link rel=stylesheet href=/evil><base href=//evil>`,
	`<a href="javascript:ran()">press</a>`,
	`javascript:ran()`,
	`JaVaScRiPt://%0aran() http://a.example/javascript:ran()`,
	`[press](javascript:ran()) ![](http://evil.example/pixel.png)`,
	`data:text/html,<script>ran()</script> https://data:text/html@evil.example/`,
	`https://bank.example@evil.example/ https://user:pass@evil.example/`,
	`https://a.example/"onmouseover="ran() https://a.example/'><script>ran()</script>`,
	"https://a.example/\u202egpj.exe https://\u0430pple.example/",
	`${ran()} {{constructor.constructor('ran()')()}} <%= ran() %>`,
	`<template shadowrootmode=open><script>ran()</script></template>`,
	`</div></dialog></lanekeeper-chat><form action=/evil><button>press</button></form>`,
	`<meta http-equiv=refresh content="0;url=/evil"><object data=/evil></object><embed src=/evil>`,
	"event: done\ndata: {}\n\nid: 9\r\n\u2028\u2029\x00\ufffe",
	`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=ran()&gt;">`,
	strings.Repeat("W", 3000) + " https://a.example/" + strings.Repeat("w", 500),
}

// hostile: whatever the agent or the visitor says is shown as it is, runs nothing and loads nothing,
// while it streams, when it is done, and from the history.
func hostile(r *room) {
	seen := make(chan struct{})
	r.stub.talks(func(c *call) {
		c.begin()
		id := fmt.Sprintf("1.1.%s", strings.Repeat("0", 8))
		c.delta(id, c.message)
		c.wait(seen)
		c.finish(id, c.message)
	})
	r.visit()
	r.must(r.Eval(r.ctx, `window.runs = 0; window.ran = () => { runs++ }`, nil))
	r.open()
	var shown []string
	for _, text := range texts {
		r.must(r.Eval(r.ctx, q("textarea")+`.value = `+quoted(text), nil))
		r.must(r.Eval(r.ctx, q("form")+`.requestSubmit()`, nil))
		normal := `s => s.replace(/\r\n?/g, "\n").replaceAll("\0", "\ufffd").trim()`
		r.until(`(` + normal + `)(` + q(".say[aria-hidden]") + `.textContent) === (` + normal + `)(` + quoted(text) + `)`)
		r.signal(seen)
		r.until(`!` + q(".say[aria-hidden]") + ` && ` + idle)
		shown = append(shown, text, text)
	}
	inspect := func() {
		r.Helper()
		var found struct {
			Runs     int
			Messages int
			Tags     map[string]int
			Links    []struct{ Href, Text, Rel, Target string }
		}
		r.must(r.Eval(r.ctx, `(() => {
			const root = document.querySelector("lanekeeper-chat").shadowRoot, tags = {};
			for (const e of root.querySelectorAll(".log *")) tags[e.tagName] = (tags[e.tagName] || 0) + 1;
			return {runs: window.runs || 0, messages: root.querySelectorAll(".say").length, tags,
				links: [...root.querySelectorAll("a")].map(
					a => ({href: a.href, text: a.textContent, rel: a.rel, target: a.target}))};
		})()`, &found))
		if found.Runs != 0 || found.Messages != len(shown)+1 {
			r.Errorf("%d runs, %d messages, want none and %d", found.Runs, found.Messages, len(shown)+1)
		}
		delete(found.Tags, "DIV")
		delete(found.Tags, "SPAN")
		delete(found.Tags, "A")
		if len(found.Tags) > 0 {
			r.Errorf("elements were made of texts: %v", found.Tags)
		}
		links := map[string]string{}
		for _, l := range found.Links {
			links[l.Href] = l.Text
			if l.Rel != "noopener noreferrer nofollow" || l.Target != "_blank" {
				r.Errorf("%+v", l)
			}
		}
		long := "https://a.example/" + strings.Repeat("w", 500)
		want := map[string]string{
			"http://a.example/javascript:ran()": "http://a.example/javascript:ran()",
			"http://evil.example/pixel.png":     "http://evil.example/pixel.png",
			"https://a.example/":                "https://a.example/",
			"https://xn--pple-43d.example/":     "https://xn--pple-43d.example/",
			long:                                long,
		}
		if !maps.Equal(links, want) {
			r.Errorf("links %q, want %q", links, want)
		}
		for _, url := range r.Requests() {
			if !strings.HasPrefix(url, r.stub.URL+"/chat") && !strings.HasPrefix(url, r.stub.URL+"/api/v1/chat/") {
				r.Errorf("the page asked for %s", url)
			}
		}
	}
	inspect()
	r.must(r.Reload(r.ctx))
	r.until(q(".launch"))
	r.must(r.Eval(r.ctx, `window.runs = 0; window.ran = () => { runs++ }`, nil))
	r.open()
	r.until(said + `.length === ` + fmt.Sprint(len(shown)+1))
	inspect()
	r.once(len(texts))
	r.quiet()
}
