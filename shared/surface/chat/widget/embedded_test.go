package widget_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
)

// otherSite: the widget works on a page of another origin with a strict policy of its own, whose style
// does not reach it, and whose shortcuts hear nothing.
func otherSite(r *room) {
	const page = `<!doctype html><html lang="de"><title>A site</title><link rel="stylesheet" href="site.css">
		<script src="site.js"></script><script src="{widget}/chat/widget.js" data-key="{key}" data-color="#ffd000"
		data-title="Fragen" async></script><h1>A site</h1>`
	mux := http.NewServeMux()
	serve := func(path, media, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self' "+r.stub.URL+
				"; connect-src "+r.stub.URL+"; require-trusted-types-for 'script'; trusted-types 'none'")
			_, _ = w.Write([]byte(text))
		})
	}
	serve("/site.css", "text/css", `body > * { display: none }
		* { color: red !important; font-size: 5px !important; position: static !important }
		body > * { opacity: 0; visibility: hidden; transform: scale(0.1) } button, textarea { background: red !important }`)
	serve("/site.js", "text/javascript", `window.heard = 0; document.addEventListener("keydown", () => window.heard++)`)
	serve("/{$}", "text/html", strings.NewReplacer("{widget}", r.stub.URL, "{key}", escapedKey).Replace(page))
	site := httptest.NewServer(mux)
	r.Cleanup(site.Close)

	r.must(r.Goto(r.ctx, site.URL))
	r.until(q(".launch"))
	r.open()
	r.must(r.Eval(r.ctx, q("textarea")+".focus()", nil))
	r.must(r.Type(r.ctx, "Hallo"))
	r.must(r.Press(r.ctx, "Enter"))
	r.until(said + `.join() === "assistant|Hallo! Wie kann ich helfen?,user|Hallo,assistant|You said: Hallo"`)
	r.until(q("textarea") + `.checkVisibility({opacityProperty: true, visibilityProperty: true})`) // when the panel has faded in
	var look struct {
		Size, Color, Accent, On, Title string
		Heard                          int
	}
	r.must(r.Eval(r.ctx, `(() => {
		const text = getComputedStyle(`+q(".say")+`), button = getComputedStyle(`+q(".launch")+`);
		return {size: text.fontSize, color: text.color, accent: button.backgroundColor, on: button.color, heard,
			title: `+q(".title")+`.textContent};
	})()`, &look))
	if look.Size != "16px" || look.Color != "rgb(20, 23, 28)" || look.Accent != "rgb(255, 208, 0)" ||
		look.On != "rgb(0, 0, 0)" || look.Title != "Fragen" || look.Heard != 0 {
		r.Errorf("%+v", look)
	}
	r.once(1)
	r.quiet()
}

// withoutStorage: a page that may store nothing chats all the same.
func withoutStorage(r *room) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "sandbox allow-scripts allow-forms")
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>A site</title><script src="` + r.stub.URL +
			`/chat/widget.js" data-key="` + escapedKey + `" data-greeting="Hello! Ask me something."></script><h1>A site</h1>`))
	}))
	r.Cleanup(site.Close)
	r.must(r.Goto(r.ctx, site.URL))
	r.until(q(".launch"))
	if err := r.Eval(r.ctx, `localStorage.length`, nil); err == nil {
		r.Fatal("the page has storage")
	}
	r.open()
	r.write("First")
	r.shows("user|First", "assistant|You said: First")
	r.write("Second")
	r.shows("user|First", "assistant|You said: First", "user|Second", "assistant|You said: Second")
	r.once(2)
	r.quiet()
}

const escapedKey = `lk_site_demo&#34;&gt;&lt;b&gt;`
