package widget_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shots names a folder for screenshots; empty: none are made.
const shots = "WIDGET_SCREENSHOTS"

// TestInABrowser runs the widget in a headless Chromium. Each test has a page with a profile of its
// own, and a server.
func TestInABrowser(t *testing.T) {
	starting, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // it may have to be installed
	defer cancel()
	b, err := browser.Start(starting)
	need(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("the browser does not end: %v", err)
		}
	})
	for _, test := range []func(*room){
		conversation, keyboardOnly, reload, reloadInTheMiddle,
		brokenStream, brokenBeforeTheAnswer, lostStream, answerBegunAnew,
		tooMany, conversationSpent, budgetSpent, refusedForGood, offline, notSentTwice,
		answerComesLater, failedAnswer, closedMeanwhile,
		hostile, otherSite, withoutStorage,
		barriers, widths, lessMotion,
	} {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndex(name, ".")+1:], func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			p, err := b.Open(ctx, browser.Desktop)
			need(t, err)
			test(&room{T: t, ctx: ctx, Page: p, stub: newStub(t)})
			need(t, p.Close(ctx))
		})
	}
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
	ctx  context.Context
	stub *stub
}

// q is the element of the widget that a selector finds, as JavaScript.
func q(selector string) string {
	return `document.querySelector("lanekeeper-chat").shadowRoot.querySelector('` + selector + `')`
}

const (
	// said are the messages on display, as "user|text".
	said = `[...document.querySelector("lanekeeper-chat").shadowRoot.querySelectorAll(".say")].filter(e => !e.ariaHidden)
		.map(e => e.className.replace("say ", "") + "|" + [...e.childNodes].slice(1).map(n => n.textContent).join(""))`
	panelOpen = `document.querySelector("lanekeeper-chat").shadowRoot.querySelector(".panel").open`
	idle      = `document.querySelector("lanekeeper-chat").shadowRoot.querySelector(".status").textContent === ""`
	focused   = `document.querySelector("lanekeeper-chat").shadowRoot.activeElement`
	greeting  = "assistant|Hello! Ask me something."
)

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
		var text, focus string
		_ = r.Eval(r.ctx, `document.querySelector("lanekeeper-chat")?.shadowRoot.querySelector(".panel").innerText`, &text)
		_ = r.Eval(r.ctx, focused+`?.outerHTML`, &focus)
		r.Fatalf("%v\non display: %s\nfocus: %s\ncomplaints: %q\nsaid: %q", err, text, focus, r.Complaints(), r.stub.bodies())
	}
}

// visit opens the demo page and waits for the widget.
func (r *room) visit() {
	r.Helper()
	r.must(r.Goto(r.ctx, r.stub.URL+"/chat-demo"))
	r.until(q(".launch"))
}

// open opens the panel with the mouse.
func (r *room) open() {
	r.Helper()
	r.must(r.Click(r.ctx, q(".launch")))
	r.until(panelOpen)
}

// write writes a message and sends it.
func (r *room) write(text string) {
	r.Helper()
	r.until(idle)
	r.must(r.Eval(r.ctx, q("textarea")+".focus()", nil))
	r.must(r.Type(r.ctx, text))
	r.must(r.Press(r.ctx, "Enter"))
}

// shows waits until exactly these messages are on display.
func (r *room) shows(messages ...string) {
	r.Helper()
	want, err := json.Marshal(append([]string{greeting}, messages...))
	r.must(err)
	r.until("JSON.stringify(" + said + ") === JSON.stringify(" + string(want) + ")")
}

// signal tells the server to go on.
func (r *room) signal(to chan<- struct{}) {
	r.Helper()
	select {
	case to <- struct{}{}:
	case <-r.ctx.Done():
		r.Fatal("the server does not wait")
	}
}

// notes waits for a notice that contains a text.
func (r *room) notes(text string) {
	r.Helper()
	r.until(q(".notice") + `.textContent.includes(` + quoted(text) + `)`)
}

// quiet fails the test where the browser has complained, but of what the test has brought about.
func (r *room) quiet(but ...string) {
	r.Helper()
	for _, c := range r.Complaints() {
		if !slices.ContainsFunc(but, func(part string) bool { return strings.Contains(c, part) }) {
			r.Errorf("the browser complains: %s", c)
		}
	}
}

// once fails the test unless so many messages came, by one visitor.
func (r *room) once(messages int) {
	r.Helper()
	if n, v := r.stub.messages(), r.stub.visitors(); n != messages || v != 1 {
		r.Errorf("%d messages of %d visitors, want %d of one", n, v, messages)
	}
}

// shot makes a screenshot, where somebody wants one.
func (r *room) shot(name string) {
	if folder := os.Getenv(shots); folder != "" {
		r.must(r.Screenshot(r.ctx, filepath.Join(folder, name+".png")))
	}
}

func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
