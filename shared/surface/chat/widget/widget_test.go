package widget_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat/widget"
)

const demoKey = `lk_site_demo"><b>`

// keyed is a handler whose page has a key.
func keyed() *widget.Handler {
	return &widget.Handler{DemoKey: func(context.Context) (string, error) { return demoKey, nil }}
}

// asked is what a handler answers.
func asked(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		from = z
	}
	text, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A site pays for the widget with less than 15 KB.
func TestTheScriptIsSmall(t *testing.T) {
	const most = 15_000
	got := asked(keyed(), http.MethodGet, widget.ScriptPath, "Accept-Encoding", "gzip, deflate, br")
	raw, err := io.ReadAll(got.Body)
	if err != nil || got.Header.Get("Content-Encoding") != "gzip" || len(raw) > most || len(raw) < 1000 {
		t.Fatalf("%d bytes, want at most %d; %v %v", len(raw), most, got.Header, err)
	}
	t.Logf("%d bytes compressed", len(raw))
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	want, errFile := os.ReadFile("widget.js")
	if err := errors.Join(err, errFile); err != nil || !bytes.Equal(plain, want) {
		t.Errorf("it is not widget.js: %d bytes, %v", len(plain), err)
	}
}

// What is said is never made markup or code.
func TestTheScriptMakesNoMarkupOfText(t *testing.T) {
	text := body(t, asked(keyed(), http.MethodGet, widget.ScriptPath))
	for _, sink := range []string{
		"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "setHTML", "createContextualFragment", "DOMParser",
		"eval(", "new Function", "srcdoc", ".cssText", "import(",
	} {
		if strings.Contains(text, sink) {
			t.Errorf("widget.js uses %s", sink)
		}
	}
}

func TestTheScriptIsCached(t *testing.T) {
	h := keyed()
	plain := asked(h, http.MethodGet, widget.ScriptPath)
	zipped := asked(h, http.MethodGet, widget.ScriptPath, "Accept-Encoding", "gzip;q=0.5")
	for name, want := range map[string]string{
		"Content-Type":                 "text/javascript; charset=utf-8",
		"X-Content-Type-Options":       "nosniff",
		"Vary":                         "Accept-Encoding",
		"Cache-Control":                "public, max-age=300, stale-while-revalidate=86400",
		"Cross-Origin-Resource-Policy": "cross-origin",
		"Content-Encoding":             "",
		"Access-Control-Allow-Origin":  "",
	} {
		if got := plain.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if body(t, plain) != body(t, zipped) || plain.Header.Get("ETag") == zipped.Header.Get("ETag") {
		t.Errorf("plain %v, zipped %v", plain.Header, zipped.Header)
	}
	for _, refusing := range []string{"br", "gzip;q=0", "gzip; q=0.00", "xgzip"} {
		got := asked(h, http.MethodGet, widget.ScriptPath, "Accept-Encoding", refusing)
		if got.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q: %v", refusing, got.Header)
		}
	}
	for _, r := range []*http.Response{
		asked(h, http.MethodGet, widget.ScriptPath, "If-None-Match", plain.Header.Get("ETag")),
		asked(h, http.MethodGet, widget.ScriptPath, "Accept-Encoding", "gzip", "If-None-Match", zipped.Header.Get("ETag")),
	} {
		if r.StatusCode != http.StatusNotModified || body(t, r) != "" {
			t.Errorf("%d %v", r.StatusCode, r.Header)
		}
	}
	part := asked(h, http.MethodGet, widget.ScriptPath, "Range", "bytes=0-9")
	if part.StatusCode != http.StatusOK {
		t.Errorf("a part: %d", part.StatusCode)
	}
	head := asked(h, http.MethodHead, widget.ScriptPath)
	if head.StatusCode != http.StatusOK || len(head.Header.Get("Content-Length")) < 4 || body(t, head) != "" {
		t.Errorf("HEAD: %d %v", head.StatusCode, head.Header)
	}
}

func TestTheDemoPage(t *testing.T) {
	const command = "bin/lanekeeper site-keys create"
	model := keyed()
	model.DemoModel = true
	for name, c := range map[string]struct {
		handler     *widget.Handler
		has, hasNot []string
	}{
		"with a key": {
			keyed(),
			[]string{`<script src="chat/widget.js" data-key="lk_site_demo&#34;&gt;&lt;b&gt;"`, command, "What you can try"},
			[]string{"<b>", "demo model", "There is no site key", "<!--"},
		},
		"with the demo model": {
			model,
			[]string{"<script src", "The demo model answers here", "[demo model]"},
			[]string{"There is no site key", "<!--"},
		},
		"without a key": {
			&widget.Handler{DemoModel: true},
			[]string{"There is no site key", command}, []string{"<script src", "demo model", "What you can try", "<!--"},
		},
		"with an empty key": {
			&widget.Handler{DemoKey: func(context.Context) (string, error) { return "", nil }},
			[]string{"There is no site key", command}, []string{"<script src", "What you can try"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := asked(c.handler, http.MethodGet, widget.DemoPath)
			text := body(t, got)
			if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Fatalf("%d %v", got.StatusCode, got.Header)
			}
			for _, part := range c.has {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing in:\n%s", part, text)
				}
			}
			for _, part := range c.hasNot {
				if strings.Contains(text, part) {
					t.Errorf("%q is in:\n%s", part, text)
				}
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer",
			} {
				if got := got.Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			policy := got.Header.Get("Content-Security-Policy")
			for _, part := range []string{
				"default-src 'none'", "script-src 'self';", "connect-src 'self';", "style-src 'sha256-", "base-uri 'none'",
				"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
			} {
				if !strings.Contains(policy, part) {
					t.Errorf("%q is missing in %s", part, policy)
				}
			}
			if strings.Contains(policy, "unsafe") {
				t.Error(policy)
			}
			again := asked(c.handler, http.MethodGet, widget.DemoPath, "If-None-Match", got.Header.Get("ETag"))
			if again.StatusCode != http.StatusNotModified {
				t.Errorf("asked again: %d", again.StatusCode)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	broken := &widget.Handler{DemoKey: func(context.Context) (string, error) { return "", errors.New("a secret") }}
	for _, c := range []struct {
		handler      *widget.Handler
		method, path string
		status       int
		header       string
	}{
		{keyed(), http.MethodGet, "/chat/none.js", http.StatusNotFound, ""},
		{keyed(), http.MethodGet, "/chat-demo/", http.StatusNotFound, ""},
		{keyed(), http.MethodPost, widget.ScriptPath, http.StatusMethodNotAllowed, "Allow"},
		{broken, http.MethodGet, widget.DemoPath, http.StatusServiceUnavailable, "Retry-After"},
	} {
		got := asked(c.handler, c.method, c.path)
		text := body(t, got)
		if got.StatusCode != c.status || got.Header.Get("Content-Type") != problem.MediaType ||
			strings.Contains(text, "secret") || c.header != "" && got.Header.Get(c.header) == "" {
			t.Errorf("%s %s: %d %v %s", c.method, c.path, got.StatusCode, got.Header, text)
		}
	}
}
