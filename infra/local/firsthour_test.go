package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// transcript records what a person types in an empty folder, and the output.
type transcript struct {
	t       *testing.T
	from    string // the previous working directory
	folder  string
	environ []string // constant for all lines and not shown
	text    strings.Builder
}

// newTranscript starts a transcript in a new folder, which becomes the working directory.
func newTranscript(t *testing.T, environ ...string) *transcript {
	t.Helper()
	from, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	t.Chdir(folder)
	return &transcript{t: t, from: from, folder: folder, environ: append([]string{"ADDR=127.0.0.1:0", "HEARTBEAT_EVERY=24h"}, environ...)}
}

// types runs a line such as `SQLITE_PATH=x lanekeeper migrate` to its end.
func (s *transcript) types(line string) {
	s.t.Helper()
	var out strings.Builder
	environ, args := s.split(line)
	code := run(s.t.Context(), args, environ, strings.NewReader(""), &out, &out)
	fmt.Fprintf(&s.text, "$ %s\n%s[exit code %d]\n\n", line, out.String(), code)
}

// starts runs a line whose program does not end by itself. It waits for mark and stops the program.
// It omits the log lines from the first beat on.
func (s *transcript) starts(line, in, mark string) {
	s.t.Helper()
	environ, args := s.split(line)
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	out := newWatched()
	c := &console{name: args[0], environ: environ, in: strings.NewReader(in), out: out, err: out, terminal: in != ""}
	code := make(chan int)
	go func() {
		code <- c.code(c.run(ctx, args[1:]))
		out.end()
	}()
	out.wait(s.t, mark)
	stop()
	<-code
	before, _, _ := strings.Cut(out.String(), mark)
	fmt.Fprintf(&s.text, "$ %s\n%s…\n\n", line, before)
}

// restarts ends a runner during a beat, by Ctrl-C and by kill -9, and starts it again.
func (s *transcript) restarts() {
	s.t.Helper()
	var hangs atomic.Bool
	asked := make(chan struct{}, 100)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice when the client disconnects
		if hangs.Load() {
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id": "x", "model": "slow", "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
			"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "I can't."}}]}`)
	}))
	defer model.Close()
	before := s.environ
	defer func() { s.environ = before }()
	prepared := func(path string) home { // the two cases do not share a database
		s.environ = append(slices.Clone(before), "SQLITE_PATH="+path, "DEMO=0",
			"LLM_PROVIDER=openai", "LLM_MODEL=slow", "OPENAI_API_KEY=x", "OPENAI_BASE_URL="+model.URL)
		h := home{s.t, s.environ}
		h.must(exitDone, "migrate")
		h.must(exitDone, "objectives", "create", `{"title":"Sell ice"}`)
		hangs.Store(true)
		return h
	}

	s.says("## Ctrl-C while a beat works, and the next start")
	d := prepared("stopped/lk.db").dev()
	s.signalled(asked, "a beat that asks its model")
	if code := d.end(); code != exitDone {
		s.t.Errorf("exit code %d\n%s", code, d)
	}
	hangs.Store(false)
	s.starts("lanekeeper dev", "", "model slow")

	s.says("## kill -9 while a beat works, and the next start")
	prepared("killed/lk.db")
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), self, "dev")
	cmd.Env = append(append(cmd.Environ(), s.environ...), asLanekeeper+"=1")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.signalled(asked, "a beat that asks its model")
	if err := cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = cmd.Wait()
	hangs.Store(false)
	s.starts("lanekeeper dev", "", "model slow")
}

// signalled waits for a signal, up to a limit.
func (s *transcript) signalled(signal <-chan struct{}, of string) {
	s.t.Helper()
	select {
	case <-signal:
	case <-time.After(2 * time.Minute):
		s.t.Fatalf("there was no sign of %s", of)
	}
}

// split splits a command line.
func (s *transcript) split(line string) (environ, args []string) {
	environ = append(environ, s.environ...)
	args = strings.Fields(line)
	for strings.Contains(args[0], "=") {
		environ, args = append(environ, args[0]), args[1:]
	}
	return environ, args
}

// says adds a sentence about something that a person sees elsewhere.
func (s *transcript) says(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n\n", args...) }

// texts that differ in each run
var differing = []struct {
	what *regexp.Regexp
	is   string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d{4,5}`), "127.0.0.1:8080"},
	{regexp.MustCompile(`([#&]token=|LANEKEEPER_TOKEN=)\w+`), "${1}TOKEN"},
	{regexp.MustCompile(`\b(hb|op|wk)_\w{9}_\w{10}\b`), "${1}_0mwpsn9ll_vbajku4yo5"},
	{regexp.MustCompile(`\d+(\.\d+)?(ms|µs)`), "1ms"},
	{regexp.MustCompile(`[<0-9.]+ (ms|s)\b`), "1 ms"},
	{regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `), "10:30:00 "},
	{regexp.MustCompile(`\b01[0-9a-f]{6}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "01a203f9-9c2d-7078-8578-3917691c92fa"},
	{regexp.MustCompile(`this build has \d+`), "this build has 38"},
	{regexp.MustCompile(`"traceId":"\w+"`), `"traceId":"op_0mwpsn9ll_vbajku4yo5"`},
}

// ends compares the transcript with a file.
func (s *transcript) ends(name string) {
	s.t.Helper()
	folder, err := filepath.EvalSymlinks(s.folder)
	if err != nil {
		s.t.Fatal(err)
	}
	text := strings.ReplaceAll(strings.ReplaceAll(s.text.String(), folder, "/home/you"), s.folder, "/home/you")
	for _, d := range differing {
		text = d.what.ReplaceAllString(text, d.is)
	}
	s.t.Chdir(s.from)
	golden(s.t, name, text)
}

// TestTheFirstHour records what goes wrong in the first hour of a new user, as the user sees it.
func TestTheFirstHour(t *testing.T) {
	s := newTranscript(t)
	if err := os.WriteFile("photo.png", []byte("\x89PNG\r\n\x1a\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	s.says("## A wrong path: a photo")
	s.types("SQLITE_PATH=photo.png lanekeeper dev")
	s.types("SQLITE_PATH=photo.png lanekeeper migrate")

	s.says("## DATABASE_URL alone, and nobody listens there")
	s.types("DATABASE_URL=postgres://me@127.0.0.1:1/mine lanekeeper migrate")
	s.types("DATABASE_URL=postgres://me@127.0.0.1:1/mine lanekeeper locks")

	s.says("## The key of a model in the environment, without a terminal")
	s.starts("ANTHROPIC_API_KEY=sk-1 lanekeeper dev", "", "In another terminal:")
	s.says("## … and on one, where the answer is no")
	s.starts("ANTHROPIC_API_KEY=sk-1 lanekeeper dev", "n\n", "In another terminal:")

	s.says("## A workspace that is not there")
	s.types("lanekeeper objectives --workspace nope")
	s.types("lanekeeper objectives --workspace 00000000-0000-7000-8000-00000000000f")

	s.says("## A conversation that is not there")
	s.types("lanekeeper ask --thread 00000000-0000-7000-8000-00000000000f hello")

	s.restarts()

	s.says("## A schema from the future: a newer build has migrated the file")
	upgradeFile(t, ".lanekeeper/lanekeeper.db", 999, 998)
	for _, verb := range []string{"dev", "migrate", "objectives", "doctor"} {
		s.types("lanekeeper " + verb)
	}

	s.ends("first_hour.golden")
}
