// Package widget serves the chat widget that sites embed, /chat/widget.js, and a page that shows it,
// /chat-demo.
//
// The widget is written by hand, without dependencies or a build step; widget.js says how a site
// embeds it. It is a client of /api/v1/chat: it sends Authorization, X-Session-Id, Content-Type and
// Last-Event-ID, and reads X-Thread-Id, X-Execution-Id and Retry-After. What answers requests of other
// origins must allow the former and expose the latter.
package widget

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// The paths that a Handler serves, also below the path of a stage: its pages name one another
// relative to where they are.
const (
	ScriptPath = "/chat/widget.js"
	DemoPath   = "/chat-demo"
)

var (
	//go:embed widget.js
	script []byte
	//go:embed demo.html
	page string
)

// Handler serves the widget and its page to everyone. It is safe for concurrent use, and must not be
// copied.
type Handler struct {
	// DemoKey returns the site key with which the page chats; "" or nil: there is none, and the page
	// says how to make one. The page shows the key to everyone.
	DemoKey func(context.Context) (string, error)
	// DemoModel says that the demo model answers, as the page then does too.
	DemoModel bool

	once   sync.Once
	script file
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	id, _ := trace.From(r.Context())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		problem.New(http.StatusMethodNotAllowed, "method_not_allowed", "this path is asked with GET").
			With("Allow", "GET, HEAD").Write(w, id)
		return
	}
	switch r.URL.Path {
	case ScriptPath:
		h.serveScript(w, r)
	case DemoPath:
		key := ""
		if h.DemoKey != nil {
			var err error
			if key, err = h.DemoKey(r.Context()); err != nil {
				head.Set("Cache-Control", "no-store")
				problem.New(http.StatusServiceUnavailable, "unavailable", "the page's site key can't be read now").
					Later(2*time.Second).Write(w, id)
				return
			}
		}
		h.servePage(w, r, key)
	default:
		problem.New(http.StatusNotFound, "not_found", "there is no such page").Write(w, id)
	}
}

// serveScript serves the script to the pages of all sites. Browsers ask for it anew every five
// minutes, and use what they have meanwhile.
func (h *Handler) serveScript(w http.ResponseWriter, r *http.Request) {
	h.once.Do(func() { h.script = newFile(script) })
	head := w.Header()
	head.Set("Content-Type", "text/javascript; charset=utf-8")
	head.Set("Cache-Control", "public, max-age=300, stale-while-revalidate=86400")
	head.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.script.serve(w, r)
}

// servePage serves the page as it is with a key, or without one.
func (h *Handler) servePage(w http.ResponseWriter, r *http.Request, key string) {
	text := section(page, "key", key != "")
	text = section(text, "none", key == "")
	text = section(text, "model", h.DemoModel)
	text = strings.ReplaceAll(text, "{key}", html.EscapeString(key))
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Cache-Control", "no-cache")
	head.Set("Content-Security-Policy", policy(text))
	head.Set("Referrer-Policy", "no-referrer")
	newFile([]byte(text)).serve(w, r)
}

// section keeps or removes the parts of a text between <!--name--> and <!--/name-->.
func section(text, name string, keep bool) string {
	for {
		before, rest, found := strings.Cut(text, "<!--"+name+"-->\n")
		if !found {
			return text
		}
		part, after, _ := strings.Cut(rest, "<!--/"+name+"-->\n")
		if !keep {
			part = ""
		}
		text = before + part + after
	}
}

// policy lets the page use the style within it and the script and the API beside it, and lets nobody
// make markup of text.
func policy(page string) string {
	_, style, _ := strings.Cut(page, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; script-src 'self'; connect-src 'self'; " +
		"style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
}

// file is a content, also compressed, with a tag of each.
type file struct {
	plain, zipped       []byte
	plainTag, zippedTag string
}

func newFile(content []byte) file {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is one
	_, _ = z.Write(content)                               // a buffer takes everything
	_ = z.Close()
	sum := sha256.Sum256(content)
	tag := hex.EncodeToString(sum[:8])
	return file{content, b.Bytes(), `"` + tag + `"`, `"` + tag + `-gzip"`}
}

// serve answers with the content, unless the caller has it.
func (f file) serve(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Vary", "Accept-Encoding")
	content, tag := f.plain, f.plainTag
	if acceptsGzip(r.Header) {
		content, tag = f.zipped, f.zippedTag
		head.Set("Content-Encoding", "gzip")
	}
	head.Set("ETag", tag)
	r.Header.Del("Range") // parts of so little are of no use, and of no sense when compressed
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// acceptsGzip reports whether the caller names gzip, and does not refuse it.
func acceptsGzip(h http.Header) bool {
	for _, one := range strings.Split(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(one), " ", ""), ";")
		if name == "gzip" && strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" || name == "gzip" && weight == "" {
			return true
		}
	}
	return false
}
