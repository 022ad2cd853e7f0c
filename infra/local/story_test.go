package main

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/trace"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (go test -update writes it anew):\n%s", path, diff)
	}
}

// stage prints events on a paper, a second apart.
type stage struct {
	handler slog.Handler
	at      time.Time
}

func newStage(p paper) *stage {
	return &stage{trace.NewHandler(newStory(p, slog.LevelDebug)), time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)}
}

func (s *stage) say(ctx context.Context, level slog.Level, message string, attrs ...any) {
	r := slog.NewRecord(s.at, level, message, 0)
	r.Add(attrs...)
	s.at = s.at.Add(time.Second)
	_ = s.handler.Handle(ctx, r) // it never fails
}

// tellAll prints every event of a beat, and a beat that alternates with another.
func tellAll(s *stage) {
	const info, failed, wrong = slog.LevelInfo, slog.LevelWarn, slog.LevelError
	plain := context.Background()
	ctx := trace.WithExecution(trace.With(plain, "hb_0mwptt4w0_7o87dccl8g"), "e1")
	other := trace.With(plain, "op_0mwptt4w0_7o87dccl8h")
	s.say(ctx, info, "beat started", "slot", "heartbeat:w:2026-11-20T10:30Z", "objectives", 4, "attempt", 1)
	s.say(ctx, info, "work on objective", "phase", "plan", "objective", "Write a welcome text", "step", "", "attempt", 1)
	s.say(ctx, info, "model answered", "step", 1, "model", "demo", "calls", 1, "tokens", 1060, "duration_ms", int64(0))
	s.say(ctx, info, "skill done", "skill", "plan_objective", "call", "1.1", "duration_ms", int64(12))
	s.say(ctx, info, "model answered", "step", 2, "model", "demo", "calls", 0, "tokens", 1, "duration_ms", int64(1500))
	s.say(ctx, info, "work ended", "phase", "plan", "objective", "Write a welcome text", "step", "", "status", "completed", "reason", "", "answer", "[demo model] I gave it\na plan.\x1b[31m")
	s.say(ctx, info, "phase ended", "phase", "plan", "considered", 1, "done", 1, "failed", 0, "left", 0, "tokens", 2160, "duration_ms", int64(1512))
	s.say(ctx, info, "work on objective", "phase", "advance", "objective", "会議の要約を書く", "step", "読む", "attempt", 2)
	s.say(ctx, info, "run resumed", "step", 3, "attempt", 2, "open_calls", 1)
	s.say(other, info, "request", "method", "GET", "route", "/api/v1/activity", "status", 200, "duration_ms", int64(3))
	s.say(ctx, info, "skill name matched", "asked", "Save-Memory", "skill", "save_memory")
	s.say(ctx, failed, "skill failed", "skill", "save_memory", "call", "3.1", "error", "the memory is full")
	s.say(ctx, failed, "call refused", "tool", "sing", "call", "4.1", "arguments", "{}", "note", "The tool \"sing\" does not exist.")
	s.say(ctx, wrong, "skill panicked", "skill", "save_memory", "panic", "index out of range", "stack", "…")
	s.say(ctx, wrong, "model failed", "step", 5, "class", "rate_limit", "error", "too many requests")
	s.say(other, info, "skill done", "skill", "of_another_beat", "call", "1.1", "duration_ms", int64(65_000))
	s.say(ctx, failed, "run interrupted", "step", 5, "error", "context canceled")
	s.say(ctx, failed, "work left: its lane is lost", "phase", "advance", "objective", "Write a welcome text", "error", "the hold on the lane is over")
	s.say(ctx, failed, "work given up", "phase", "advance", "objective", "会議の要約を書く", "step", "読む", "reason", "it was tried 3 times")
	s.say(ctx, info, "work ended", "phase", "advance", "objective", "会議の要約を書く", "step", "読む", "status", "parked", "reason", "the time was up", "answer", "")
	s.say(ctx, info, "phase ended", "phase", "advance", "considered", 4, "done", 1, "failed", 1, "left", 2, "tokens", 1234567, "duration_ms", int64(90_000))
	s.say(ctx, info, "looks at the beats", "phase", "reflect", "about", "what was done lately")
	s.say(ctx, info, "model answered", "step", 1, "model", "demo", "calls", 0, "tokens", 290, "duration_ms", int64(2))
	s.say(ctx, info, "phase ended", "phase", "reflect", "considered", 1, "done", 1, "failed", 0, "left", 0, "tokens", 290, "duration_ms", int64(7))
	s.say(ctx, info, "phase ended", "phase", "remember", "considered", 0)
	s.say(ctx, info, "beat ended", "outcome", "parked", "reason", "the time was up", "left", 2, "tokens", 1236727, "duration_ms", int64(91_600))
	s.say(ctx, wrong, "beat lost the lane and changed nothing after that", "error", "the hold on the lane is over")
	s.say(other, info, "beat ended", "outcome", "skipped", "reason", "the lane is taken", "left", 0, "tokens", 0, "duration_ms", int64(2))
	s.say(plain, info, "lane taken", "holder", "heartbeat/laptop-7/hb_0mwptt4w0_7o87dccl8g")
	s.say(other, info, "beat ended", "outcome", "skipped", "reason", "a person works in operate", "left", 0, "tokens", 0, "duration_ms", int64(2),
		"put_off_to", time.Date(2026, 11, 20, 11, 1, 40, 0, time.Local))
	s.say(plain, info, "next beat", "at", "11:00")
	s.say(other, info, "task waits", "title", "Refund an order", "reason", "")
	s.say(other, info, "task waits", "title", "Refund an order", "reason", "the thread is busy")
	hook := trace.With(plain, "wh_0mwptt4w0_7o87dccl8i")
	s.say(hook, info, "webhook received", "source", "till", "event", "order.paid", "delivery", "d1", "bytes", 20)
	s.say(hook, info, "webhook done", "source", "till", "delivery", "d1", "event", "order.paid",
		"action", "skill save_memory", "attempt", 1, "execution", "e2")
	s.say(hook, info, "webhook done", "source", "till", "delivery", "d2", "event", "order.melted",
		"action", "", "attempt", 1, "execution", "")
	s.say(plain, wrong, "beat failed", "error", "connect to Postgres: database unavailable: a long story that must not be cut, because it is what one looks for")
	s.say(plain, slog.LevelDebug, "something nobody foresaw", "count", 3, "empty", "", slog.Group("inner", "text", "with spaces"))
}

func TestTheStoryOfABeat(t *testing.T) {
	var out bytes.Buffer
	tellAll(newStage(paper{w: &out, width: func() int { return 0 }}))
	golden(t, "story.golden", out.String())
}

func TestTheStoryOnANarrowTerminalWithColours(t *testing.T) {
	var out bytes.Buffer
	tellAll(newStage(paper{w: &out, width: func() int { return 60 }, colour: true}))
	golden(t, "story_narrow.golden", out.String())
	codes := regexp.MustCompile("\x1b\\[[0-9]*m")
	uncut := regexp.MustCompile(`failed|refused|panicked|given up|lost|held by`) // words that must not be cut
	for line := range strings.Lines(out.String()) {
		shown := codes.ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
		if columnsOf(shown) > 60 && !uncut.MatchString(shown) {
			t.Errorf("%d columns: %s", columnsOf(shown), shown)
		}
	}
}

// TestEveryMessageOfABeatHasItsLine checks that lines covers all log messages of a beat.
func TestEveryMessageOfABeatHasItsLine(t *testing.T) {
	said := regexp.MustCompile(`(?s)\bLog\.\w+Context\([^"]*?"([^"]+)"`)
	seen := 0
	for _, dir := range []string{"../../shared/surface/heartbeat", "../../shared/reason"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range said.FindAllStringSubmatch(string(text), -1) {
				seen++
				if lines[m[1]] == nil && !strings.HasSuffix(file, "_test.go") {
					t.Errorf("%s says %q, for which lines.go has no line", file, m[1])
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d messages were found: does the expression still fit the code?", seen)
	}
}

// A cycle is told if it has done anything at all, and the line then says what.
func TestEveryCountOfACycleIsTold(t *testing.T) {
	for _, key := range []string{"assigned", "recovered", "requeued", "unclaimed", "timed_out", "failed", "paused", "gone"} {
		var out bytes.Buffer
		newStage(paper{w: &out, width: func() int { return 0 }}).say(t.Context(), slog.LevelInfo, "cycle ended", key, 1)
		if _, what, _ := strings.Cut(out.String(), "coordinator"); !strings.HasPrefix(what, " 1 ") {
			t.Errorf("%s: %q", key, out.String())
		}
	}
}

// One thing is not told in the plural.
func TestOneIsToldAsOne(t *testing.T) {
	for message, c := range map[string]struct{ key, says string }{
		"approvals expired":      {"count", "1 approval expired"},
		"conversation compacted": {"messages", "1 message became"},
	} {
		var out bytes.Buffer
		newStage(paper{w: &out, width: func() int { return 0 }}).say(t.Context(), slog.LevelInfo, message, c.key, 1)
		says(t, out.String(), c.says)
	}
}

// TestTheStoryIsAHandler runs the standard library's conformance suite on the printed form of
// unknown events.
func TestTheStoryIsAHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return newStory(paper{w: &out, width: func() int { return 0 }}, slog.LevelInfo)
	}, func(*testing.T) map[string]any { return reread(out.String()) })
}

// reread parses an event from its line: "15:04:05 message  a=1  b.c=2".
func reread(line string) map[string]any {
	event := map[string]any{slog.LevelKey: "INFO"}
	if regexp.MustCompile(`^\d\d:\d\d:\d\d `).MatchString(line) {
		event[slog.TimeKey], line = line[:clock-1], line[clock:]
	}
	parts := strings.Split(strings.TrimSpace(line), "  ")
	event[slog.MessageKey] = strings.TrimSpace(parts[0])
	for _, pair := range parts[1:] {
		key, value, _ := strings.Cut(pair, "=")
		into := event
		path := strings.Split(key, ".")
		for _, group := range path[:len(path)-1] {
			inner, _ := into[group].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
				into[group] = inner
			}
			into = inner
		}
		into[path[len(path)-1]] = value
	}
	return event
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"short", 5, "short"}, {"longer", 5, "long…"}, {"longer", 1, "…"}, {"longer", 0, ""}, {"", 0, ""},
		{"会議の要約", 10, "会議の要約"}, {"会議の要約", 9, "会議の要…"}, {"会議の要約", 8, "会議の…"},
		{"e\u0301te\u0301 long", 4, "e\u0301te\u0301…"},
	} {
		if got := cut(c.text, c.width); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestCleanTextCannotSteerTheTerminal(t *testing.T) {
	if got, want := clean("a\x1b[2Jb\nc\td\u202ee\x07"), "a?[2Jb c d?e?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
