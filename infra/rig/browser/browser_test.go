package browser_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/browser/axe"
	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// page is a page that breaks a few rules.
const page = `<!doctype html><html lang="en"><title>A page</title><meta name="viewport" content="width=device-width">
<script src="ours.js"></script><script>document.title = "ran inline"</script>
<main><h1>A page</h1><img src="none.png"><input id="in" aria-label="Name"></main>`

const script = `console.error("said", 1); console.log("not a complaint");
setTimeout(() => { throw new Error("thrown") });
document.addEventListener("click", e => { document.title = "clicked " + e.target.id });
document.addEventListener("keydown", e => { if (e.key === "Enter") document.title = "shift " + e.shiftKey });`

// served serves the page until the test ends.
func served(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page))
	})
	mux.HandleFunc("GET /ours.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(script))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// began starts a browser and closes it when the test ends.
func began(ctx context.Context, t *testing.T) *browser.Browser {
	t.Helper()
	b, err := browser.Start(ctx)
	need(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("the browser does not end: %v", err)
		}
	})
	return b
}

// need fails the test on an error. Outside of CI it skips the test if a program is missing.
func need(t *testing.T, err error) {
	t.Helper()
	if _, missing := errors.AsType[*servers.MissingError](err); missing && !dbtest.InCI() {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The rig detects the faults that tests of pages rely on it to detect.
func TestAPageIsDriven(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the browser may have to be installed
	defer cancel()
	b := began(ctx, t)
	p, err := b.Open(ctx, browser.Phone)
	need(t, err)
	need(t, p.Goto(ctx, served(t)))
	need(t, p.Until(ctx, `document.readyState === "complete"`))

	var seen struct {
		Title string
		Width int
		Dark  bool
	}
	look := func() {
		t.Helper()
		need(t, p.Eval(ctx, `({title: document.title, width: innerWidth,
			dark: matchMedia("(prefers-color-scheme: dark)").matches})`, &seen))
	}
	if look(); seen.Title != "A page" || seen.Width != 390 || seen.Dark {
		t.Errorf("%+v", seen)
	}
	need(t, p.Prefer(ctx, map[string]string{"prefers-color-scheme": "dark"}))
	need(t, p.Click(ctx, `document.getElementById("in")`))
	need(t, p.Type(ctx, "ada"))
	if look(); seen.Title != "clicked in" || !seen.Dark {
		t.Errorf("%+v", seen)
	}
	need(t, p.Press(ctx, "Shift+Enter"))
	need(t, p.Until(ctx, `document.title === "shift true" && document.getElementById("in").value === "ada"`))

	said := strings.Join(p.Complaints(), "\n")
	for _, want := range []string{`console.error: "said" 1`, "Error: thrown", "Content Security Policy", "none.png"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing among the complaints:\n%s", want, said)
		}
	}
	if strings.Contains(said, "not a complaint") {
		t.Error(said)
	}
	if !slices.ContainsFunc(p.Requests(), func(url string) bool { return strings.HasSuffix(url, "/none.png") }) {
		t.Errorf("requests: %q", p.Requests())
	}
	barriers, err := axe.Violations(ctx, p)
	need(t, err)
	if len(barriers) != 1 || !strings.HasPrefix(barriers[0], "image-alt") {
		t.Errorf("barriers: %q", barriers)
	}
	shot := filepath.Join(t.TempDir(), "page.png")
	need(t, p.Screenshot(ctx, shot))
	if info, err := os.Stat(shot); err != nil || info.Size() < 1000 {
		t.Errorf("screenshot: %v %v", info, err)
	}
	need(t, p.Offline(ctx, true))
	need(t, p.Until(ctx, `!navigator.onLine`))
}

func TestWhatDoesNotComeTrueIsNamed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b, err := browser.Start(ctx)
	need(t, err)
	p, err := b.Open(ctx, browser.Desktop)
	need(t, err)
	short, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	if err := p.Until(short, `nothing.here`); err == nil || !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "nothing.here") {
		t.Errorf("%v", err)
	}
	err = p.Eval(ctx, `Promise.reject(new Error("refused"))`, nil)
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	if err := p.Goto(ctx, "http://127.0.0.1:1/"); err == nil {
		t.Error("a page that is not there was opened")
	}
	need(t, p.Close(ctx))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Eval(ctx, "1", nil); err == nil {
		t.Error("a browser that has ended answers")
	}
}

// TestAPageThatCrashesIsNamed: nothing waits for it.
func TestAPageThatCrashesIsNamed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := began(ctx, t)
	p, err := b.Open(ctx, browser.Desktop)
	need(t, err)
	_ = p.Goto(ctx, "chrome://crash") // it is not opened
	for _, err := range []error{p.Until(ctx, "false"), p.Eval(ctx, "1", nil), p.Reload(ctx)} {
		if err == nil || !strings.Contains(err.Error(), "the page has crashed") {
			t.Errorf("error = %v", err)
		}
	}
}
