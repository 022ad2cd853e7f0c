package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// asLanekeeper makes the test's own binary act as the command, so that it can be killed.
const asLanekeeper = "TEST_BINARY_AS_LANEKEEPER"

func TestMain(m *testing.M) {
	if os.Getenv(asLanekeeper) != "" {
		main()
	}
	dbtest.Main(m)
}

// home is the environment of a lanekeeper.
type home struct {
	t       testing.TB
	environ []string
}

// newHome returns a home with a SQLite file that does not exist yet. dev chooses its port, and no
// slot is due during a test.
func newHome(t testing.TB, environ ...string) home {
	folder := filepath.Join(t.TempDir(), "data")
	return home{t, append([]string{"SQLITE_PATH=" + filepath.Join(folder, "lk.db"), "SECRET_KEY_FILE=" + filepath.Join(folder, "key"), "ADDR=127.0.0.1:0", "HEARTBEAT_EVERY=24h"}, environ...)}
}

// file returns the path of the home's SQLite file.
func (h home) file() string { return lookup(h.environ, "SQLITE_PATH") }

// patience is how long a test waits for what should come at once: a busy machine may take a minute for
// the migrations alone.
const patience = 5 * time.Minute

// result is the result of a command line.
type result struct {
	code     int
	out, err string
}

// do runs a command line to its end.
func (h home) do(args ...string) result {
	h.t.Helper()
	return h.feed("", args...)
}

// feed is do with a text on stdin.
func (h home) feed(in string, args ...string) result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	code := run(ctx, append([]string{"lanekeeper"}, args...), h.environ, strings.NewReader(in), &out, &errs)
	return result{code, out.String(), errs.String()}
}

// must is do, and fails the test if the exit code is another.
func (h home) must(code int, args ...string) result {
	h.t.Helper()
	r := h.do(args...)
	if r.code != code {
		h.t.Fatalf("lanekeeper %s: exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), r.code, code, r.out, r.err)
	}
	return r
}

// says fails the test unless text contains all parts.
func says(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

// running is a dev that runs in this process.
type running struct {
	t    testing.TB
	out  *watched
	errs *watched
	stop context.CancelFunc
	code chan int
}

// dev starts a dev. The test stops it, at the latest when it ends. A home that says nothing of DEMO has only
// the demo content of the default workspace: DEMO= is for what a newcomer has.
func (h home) dev(args ...string) *running {
	h.t.Helper()
	return h.devUntil("", args...)
}

// devUntil is dev, and stops it as soon as it prints mark, during the work that it does then.
func (h home) devUntil(mark string, args ...string) *running {
	h.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	if !slices.ContainsFunc(h.environ, func(v string) bool { return strings.HasPrefix(v, "DEMO=") }) {
		h.environ = append(slices.Clip(h.environ), "DEMO=1")
	}
	r := &running{h.t, newWatched(), newWatched(), stop, make(chan int, 1)}
	r.out.mark, r.out.reached = mark, stop
	go func() {
		r.code <- run(ctx, append([]string{"lanekeeper", "dev"}, args...), h.environ, strings.NewReader(""), r.out, r.errs)
		r.out.end()
		r.errs.end()
	}()
	h.t.Cleanup(func() {
		stop()
		<-r.out.ended
		if h.t.Failed() {
			h.t.Log(r)
		}
	})
	return r
}

// end stops it like Ctrl-C and returns its exit code.
func (r *running) end() int {
	r.t.Helper()
	r.stop()
	return <-r.code
}

// after waits for mark in the output. It returns the text between mark and the next space.
func (r *running) after(mark string) string {
	r.t.Helper()
	word, _, _ := strings.Cut(r.out.wait(r.t, mark), " ")
	return strings.TrimSpace(word)
}

// watched is a stream on which a test can wait for a text.
type watched struct {
	mu      sync.Mutex
	text    strings.Builder
	written chan struct{} // closed and replaced at the next write
	ended   chan struct{}
	mark    string // calls reached when it appears, in the goroutine that writes
	reached func()
}

func newWatched() *watched {
	return &watched{written: make(chan struct{}), ended: make(chan struct{})}
}

func (w *watched) end() { close(w.ended) }

// Write implements io.Writer.
func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.mark != "" && strings.Contains(string(p), w.mark) {
		w.mark = ""
		w.reached()
	}
	close(w.written)
	w.written = make(chan struct{})
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// wait returns the rest of the line in which mark appears, as soon as the line is complete.
func (w *watched) wait(t testing.TB, mark string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		text, written := w.text.String(), w.written
		w.mu.Unlock()
		if _, rest, found := strings.Cut(text, mark); found {
			if line, _, whole := strings.Cut(rest, "\n"); whole {
				return line
			}
		}
		select {
		case <-written:
		case <-w.ended:
			if w.String() == text {
				t.Fatalf("it ended without saying %q:\n%s", mark, text)
			}
		case <-deadline:
			t.Fatalf("it has not said %q:\n%s", mark, text)
		}
	}
}

var _ io.Writer = (*watched)(nil)

func (r *running) String() string { return fmt.Sprintf("stdout:\n%s\nstderr:\n%s", r.out, r.errs) }

// eventually waits until a condition is true.
func eventually(t testing.TB, so func() bool) {
	t.Helper()
	if !within(patience, so) {
		t.Fatalf("it is not so after %v", patience)
	}
}

// within polls a condition of another process until it is true. It returns false when the limit is
// over first.
func within(limit time.Duration, so func() bool) bool {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	over := time.After(limit)
	for !so() {
		select {
		case <-look.C:
		case <-over:
			return so()
		}
	}
	return true
}
