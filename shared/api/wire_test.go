package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
)

// The test uses a real connection for escaped paths, HEAD, and bodies that are too large.
func TestOverTheWire(t *testing.T) {
	w := onOne(t)
	server := httptest.NewServer(w)
	defer server.Close()
	do := func(method, path, body string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+owner)
		r.Header.Set("Content-Type", "application/json")
		got, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		answer, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode, got.Header, string(answer)
	}
	if status, _, body := do(http.MethodPost, "/api/v1/lanes/repo%2Fmain:1/acquire", `{"holder":"h"}`); status != 200 || !strings.Contains(body, `"lane":"repo/main:1"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, header, body := do(http.MethodHead, "/health", ""); status != 200 || body != "" || header.Get("X-Trace-Id") == "" {
		t.Errorf("HEAD: %d %q", status, body)
	}
	if status, _, _ := do(http.MethodPost, acquireX, strings.Repeat(" ", api.MaxBody+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("large: %d", status)
	}
	if status, header, _ := do(http.MethodOptions, "/api/v1/lanes", ""); status != http.StatusMethodNotAllowed || header.Get("Allow") != "GET, HEAD" {
		t.Errorf("OPTIONS: %d", status)
	}
}

// timed is a connection that records its read deadline.
type timed struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (c *timed) SetReadDeadline(at time.Time) error {
	c.deadlines = append(c.deadlines, at)
	return nil
}

// A body must arrive in time. A deadline that is not removed would cancel the context of a request
// that still works.
func TestTheDeadlineOfABodyEndsWithIt(t *testing.T) {
	w := onOne(t)
	c := &timed{ResponseRecorder: httptest.NewRecorder()}
	w.ServeHTTP(c, request(http.MethodPost, beat, owner, `{"wait":true}`))
	if c.Code != 200 || len(c.deadlines) < 2 || c.deadlines[0].IsZero() || !c.deadlines[len(c.deadlines)-1].IsZero() {
		t.Errorf("%d, deadlines %v", c.Code, c.deadlines)
	}
}

type brokenBody struct{ err error }

func (b brokenBody) Read([]byte) (int, error) { return 0, b.err }

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestBodiesThatDoNotArrive(t *testing.T) {
	w := onOne(t)
	for err, status := range map[error]int{timeout{}: http.StatusRequestTimeout, io.ErrUnexpectedEOF: http.StatusBadRequest} {
		r := request(http.MethodPost, acquireX, owner, `{}`)
		r.Body = io.NopCloser(brokenBody{err})
		if got := w.send(t, r); got.status != status {
			t.Errorf("%v: %d", err, got.status)
		}
	}
}

func TestNoBodyAtAll(t *testing.T) {
	w := onOne(t)
	r := request(http.MethodPost, beat, owner, "")
	r.Body = nil
	if got := w.send(t, r); got.status != http.StatusAccepted {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestDocsPage(t *testing.T) {
	w := onOne(t)
	page := w.call(t, http.MethodGet, "/docs", "", "")
	policy := page.header.Get("Content-Security-Policy")
	if page.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(policy, "script-src 'self'") {
		t.Errorf("%v", page.header)
	}
	for _, foreign := range []string{"http:", "https:", "style=", "onclick", "<script>"} {
		if strings.Contains(string(page.body), foreign) {
			t.Errorf("the page has %q in it", foreign)
		}
	}
	for path, media := range map[string]string{"/docs/docs.js": "text/javascript; charset=utf-8", "/docs/docs.css": "text/css; charset=utf-8"} {
		if !strings.Contains(string(page.body), `"`+path[1:]+`"`) {
			t.Errorf("the page does not load %s", path)
		}
		if got := w.call(t, http.MethodGet, path, "", ""); got.status != 200 || got.header.Get("Content-Type") != media {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
	}
}

func TestHumasMessagesWithoutValues(t *testing.T) {
	for message, want := range map[string]string{
		"expected string to be RFC 4122 uuid: invalid urn prefix: \"SECRET\"": "expected string to be RFC 4122 uuid",
		"expected duration: time: invalid duration \"SECRET\"":                "expected duration",
		"json: cannot unmarshal number SECRET into Go value":                  "expected another value",
		"SECRET":               "expected another value",
		"expected number >= 1": "expected number >= 1",
		"unexpected property":  "unexpected property",
	} {
		if got := api.Worded(message); got != want {
			t.Errorf("%q is told as %q", message, got)
		}
	}
	for location, want := range map[string]string{
		"body.holder": "body.holder", "body.items[3].tags": "body.items[3].tags", "path.lane": "path.lane", "query.limit": "query.limit",
		"body.<script>": "body", "query.a b": "query", "body." + strings.Repeat("x", 65): "body", "": "body", "SECRET": "body",
	} {
		if got := api.Located(location); got != want {
			t.Errorf("%q is told as %q", location, got)
		}
	}
}
