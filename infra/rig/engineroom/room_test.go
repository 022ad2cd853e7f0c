package engineroom_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/engineroom"
	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(int) { http.DefaultClient.CloseIdleConnections() }))
}

var root = filepath.Join("..", "..", "..")

// TestInABrowser opens the Engine Room of one running product in one headless Chromium. Each test has a
// page of its own, which is signed in. Tests that stop the workspace run at the end, one after the
// other.
func TestInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	starting, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the browser may have to be installed
	defer cancel()
	b, err := browser.Start(starting)
	need(t, err)
	product, err := engineroom.StartDemo(starting)
	need(t, err)
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), product.Close()); err != nil {
			t.Errorf("the browser or the product does not end: %v", err)
		}
	})
	run := func(t *testing.T, test func(*room)) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		r := &room{T: t, ctx: ctx, browser: b, Product: product}
		p, err := b.Open(ctx, browser.Desktop)
		need(t, err)
		r.Page = p
		test(r)
		r.calm()
		need(t, p.Close(ctx))
	}
	t.Run("together", func(t *testing.T) {
		for _, test := range slices.Concat(pageTests, workTests, controlTests, liveTests, strangerTests) {
			t.Run(nameOf(test), func(t *testing.T) {
				t.Parallel()
				run(t, test)
			})
		}
	})
	for _, test := range lastTests {
		t.Run(nameOf(test), func(t *testing.T) { run(t, test) })
	}
}

func nameOf(test func(*room)) string { // closures have the name of what makes them
	name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
	return name[strings.LastIndex(name, ".")+1:]
}

// need ends the test on an error. On a laptop it skips the test when a program is missing.
func need(t *testing.T, err error) {
	t.Helper()
	if _, missing := errors.AsType[*servers.MissingError](err); missing && !dbtest.InCI() {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// room is where a test takes place.
type room struct {
	*testing.T
	*browser.Page
	*engineroom.Product

	ctx      context.Context
	browser  *browser.Browser
	signedIn bool
	expected []string // parts of complaints that the test provokes

	hostileSecret string // of the webhook source that sends hostile texts
}

func (r *room) must(err error) {
	r.Helper()
	need(r.T, err)
}

// until waits for a condition. Where it does not come, the test tells what is on display instead.
func (r *room) until(js string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	if err := r.Until(ctx, js); err != nil {
		var text, at, focus string
		_ = r.Eval(r.ctx, `document.body.innerText.slice(0, 3000)`, &text)
		_ = r.Eval(r.ctx, `location.href`, &at)
		_ = r.Eval(r.ctx, `(document.activeElement?.outerHTML ?? "").slice(0, 300)`, &focus)
		r.Fatalf("%v\nat: %s\non display: %s\nfocus: %s\ncomplaints: %q", err, at, text, focus, r.Complaints())
	}
}

// open opens a page of the Engine Room by its path below /engine/ and waits until it has its data. The
// first time it signs in.
func (r *room) open(path string) {
	r.Helper()
	if !r.signedIn {
		r.must(r.Goto(r.ctx, r.URL+"/sign-in#token="+r.Token))
		r.until(`location.pathname === "/engine/overview" && document.querySelector("#main h1")`)
		r.signedIn = true
	}
	r.must(r.Goto(r.ctx, r.URL+"/engine/"+path))
	r.settles()
}

// settles waits until nothing on the page loads any more.
func (r *room) settles() {
	r.Helper()
	r.until(engineroom.Settled)
}

// ask sends a request as the admin.
func (r *room) ask(method, path string, body, out any) {
	r.Helper()
	r.must(r.Ask(r.ctx, method, path, body, out))
}

// eval returns the value of an expression.
func eval[T any](r *room, js string) (v T) {
	r.Helper()
	r.must(r.Eval(r.ctx, js, &v))
	return v
}

// click clicks on the element of an expression when it is there.
func (r *room) click(element string) {
	r.Helper()
	for range 5 { // a live page may move the element between the look and the click
		r.until(element)
		r.must(r.Eval(r.ctx, `(() => {
			window.clicked = undefined;
			document.addEventListener("click", (event) => {
				const element = `+element+`;
				window.clicked = !!element && element.contains(event.target);
			}, { capture: true, once: true });
			`+element+`.scrollIntoView({block: "center"});
		})()`, nil))
		r.must(r.Click(r.ctx, element))
		if !eval[bool](r, `window.clicked === false`) {
			return
		}
	}
}

// press presses keys, one after the other.
func (r *room) press(keys ...string) {
	r.Helper()
	for _, key := range keys {
		r.must(r.Press(r.ctx, key))
	}
}

// goTo opens a page with G and a letter. The page takes the two for one only where the letter comes within 1.2 s, for
// which a busy machine may be too slow.
func (r *room) goTo(letter string) {
	r.Helper()
	for was := eval[string](r, "location.href"); eval[string](r, "location.href") == was; {
		r.press("g", letter)
	}
}

// write types a text into a field that has the focus.
func (r *room) write(text string) {
	r.Helper()
	r.must(r.Type(r.ctx, text))
}

// one is the first element that a selector finds, as JavaScript.
func one(selector string) string { return "document.querySelector(" + quoted(selector) + ")" }

// says is the first element of a selector whose text contains some words, as JavaScript.
func says(selector, words string) string {
	return "[...document.querySelectorAll(" + quoted(selector) + ")].find(e => e.textContent.includes(" + quoted(words) + "))"
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// laptop is a small one.
var laptop = browser.Options{Width: 1280, Height: 800}

// expects names a part of complaints that the test provokes.
func (r *room) expects(part string) { r.expected = append(r.expected, part) }

// calm reports the errors of the page: of scripts, of the policy, of requests.
func (r *room) calm() {
	r.Helper()
	for _, c := range r.Complaints() {
		if !slices.ContainsFunc(r.expected, func(part string) bool { return strings.Contains(c, part) }) {
			r.Errorf("the page complains: %s", c)
		}
	}
}
