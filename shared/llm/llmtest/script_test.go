package llmtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// recorder replaces a test that may fail.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed []string
}

func (r *recorder) Errorf(format string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, format)
}

func user(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}}
}

func TestScriptPlaysItsSteps(t *testing.T) {
	down := &llm.Error{Class: llm.ClassUnavailable, Provider: "script"}
	m := Script(t, Call("a", `{}`, "b", `{"x":1}`), Fail(down), Say("done"))

	var streamed []llm.Delta
	resp, err := m.Generate(t.Context(), user("one"), func(d llm.Delta) { streamed = append(streamed, d) })
	if err != nil || resp.StopReason != llm.StopToolUse || len(resp.Calls) != 2 || resp.Calls[0].ID == resp.Calls[1].ID {
		t.Fatalf("got %+v, %v", resp, err)
	}
	if len(streamed) != 2 || streamed[1].Call.Name != "b" || streamed[1].Call.Index != 1 {
		t.Errorf("streamed %+v", streamed)
	}
	if _, err := m.Generate(t.Context(), user("two"), nil); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	resp, err = m.Generate(t.Context(), user("three"), func(d llm.Delta) { streamed = append(streamed, d) })
	if err != nil || resp.Text != "done" || streamed[2].Text != "done" {
		t.Errorf("got %+v, %v, streamed %+v", resp, err, streamed)
	}
	if got := m.Requests(); len(got) != 3 || got[2].Messages[0].Text != "three" {
		t.Errorf("recorded %+v", got)
	}
}

func TestScriptRecordsCopies(t *testing.T) {
	m := Script(t, Say("done"))
	req := user("before")
	if _, err := m.Generate(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	req.Messages[0].Text = "after"
	if got := m.Requests()[0].Messages[0].Text; got != "before" {
		t.Errorf("recorded %q", got)
	}
}

func TestScriptFailsTheTestWhenExhausted(t *testing.T) {
	r := &recorder{TB: t}
	m := Script(r, Say("only"))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { _, _ = m.Generate(t.Context(), user("x"), nil) })
	}
	wg.Wait()
	if len(r.failed) != 2 || !strings.Contains(r.failed[0], "script has") {
		t.Errorf("failed with %q", r.failed)
	}
	if _, err := m.Generate(t.Context(), llm.Request{}, nil); llm.ClassOf(err) != llm.ClassBadRequest {
		t.Errorf("got %v", err)
	}
}

func TestScriptHonoursCancellation(t *testing.T) {
	m := Script(t, Say("still there"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Generate(ctx, user("x"), nil); llm.ClassOf(err) != llm.ClassCanceled {
		t.Errorf("got %v", err)
	}
	if resp, err := m.Generate(t.Context(), user("x"), nil); err != nil || resp.Text != "still there" {
		t.Errorf("got %+v, %v", resp, err)
	}
}
