package reason_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// TestTheSameCallWithTheSameResultIsALoop: the model is told of the third identical result, and the
// fourth ends the run as stalled. Calls are identical if their arguments mean the same, however
// they are written.
func TestTheSameCallWithTheSameResultIsALoop(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		spellings := []string{`{"text": "x"}`, `{ "text" : "x" }`, `{"text":"x"}`, `{"text": "\u0078"}`}
		var steps []llmtest.Step
		for _, s := range spellings {
			steps = append(steps, llmtest.Call("echo_back", s))
		}
		job := w.job(t, echo())
		out := w.run(t, llmtest.Script(t, steps...), job)
		if out.Status != execution.Stalled || out.Steps != 4 || !strings.Contains(out.Reason, "4 times in a row") {
			t.Errorf("the run is %+v", out)
		}
		for i, r := range w.results(t, job) {
			if told := strings.Contains(r.Content, "3 times in a row"); told != (i == 2) {
				t.Errorf("result %d is %q", i+1, r.Content)
			}
		}
	})
}

// TestALoopOfCallsSideBySideIsSeen: the order of concurrent calls does not matter.
func TestALoopOfCallsSideBySideIsSeen(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		n := 0
		counts := does("counts", anything, func(context.Context, lane.Tx, skill.Call) (any, error) { n++; return n, nil })
		a, b, other := []string{"echo_back", `{"text": "a"}`}, []string{"echo_back", `{"text": "b"}`}, []string{"counts", `{}`}
		for name, answers := range map[string][][]string{
			"two":                 {slices.Concat(a, b), slices.Concat(b, a), slices.Concat(a, b), slices.Concat(b, a)},
			"beside another":      {slices.Concat(a, other), slices.Concat(other, a), slices.Concat(a, other), slices.Concat(a, other)},
			"beside a bad one":    {a, slices.Concat(a, []string{"nothing", `{}`}), slices.Concat([]string{"nothing", `{}`}, a), a},
			"twice in one answer": {slices.Concat(a, a), a, a, a},
		} {
			var steps []llmtest.Step
			for _, calls := range answers {
				steps = append(steps, llmtest.Call(calls...))
			}
			job := w.job(t, echo(), counts)
			out := w.run(t, llmtest.Script(t, steps...), job)
			if out.Status != execution.Stalled || out.Steps != 4 || !strings.Contains(out.Reason, "echo_back brought the same result 4 times in a row") {
				t.Errorf("%s: the run is %+v", name, out)
			}
		}
		job := w.job(t, echo())
		many := slices.Concat(a, a, a, a, a) // repetitions within one answer are not a loop
		if out := w.run(t, llmtest.Script(t, llmtest.Call(many...), llmtest.Say("done")), job); out.Status != execution.Completed {
			t.Errorf("the run is %+v", out)
		}
	})
}

func TestAnotherCallOrAnotherResultIsNoLoop(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		n := 0
		counts := does("counts", anything, func(context.Context, lane.Tx, skill.Call) (any, error) { n++; return n, nil })
		same := llmtest.Call("echo_back", `{"text": "x"}`)
		for name, steps := range map[string][]llmtest.Step{
			"another call between": {same, same, same, llmtest.Call("counts", `{}`), same, same, same},
			"other results":        {llmtest.Call("counts", `{}`), llmtest.Call("counts", `{}`), llmtest.Call("counts", `{}`), llmtest.Call("counts", `{}`), llmtest.Call("counts", `{}`)},
			"other arguments":      {same, same, llmtest.Call("echo_back", `{"text": "y"}`), same, same, llmtest.Call("echo_back", `{"text": "y"}`)},
		} {
			if out := w.run(t, llmtest.Script(t, append(steps, llmtest.Say("done"))...), w.job(t, echo(), counts)); out.Status != execution.Completed {
				t.Errorf("%s: %+v", name, out)
			}
		}
	})
}

// long returns a skill that answers every call with a long text.
func long() skill.Skill {
	n := 0
	return does("read", anything, func(context.Context, lane.Tx, skill.Call) (any, error) {
		n++
		return map[string]any{"page": n, "text": strings.Repeat("words ", 400)}, nil
	})
}

// reads returns an answer that calls for a page and reports the given usage.
func reads(used int) llmtest.Step {
	return func(req llm.Request) (llm.Response, error) {
		resp, err := llmtest.Call("read", `{}`)(req)
		resp.Usage = llm.Usage{PromptTokens: used, CompletionTokens: 10}
		return resp, err
	}
}

// TestALongConversationIsCompacted: from three quarters of the window on, a summary replaces the
// oldest messages. Calls stay with their results, and the journal keeps everything.
func TestALongConversationIsCompacted(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, long())
		job.Window = 4000
		var asked []llm.Request
		summary := func(req llm.Request) (llm.Response, error) {
			asked = append(asked, req)
			return llmtest.Say("pages 1 and 2 were read")(req)
		}
		after := func(req llm.Request) (llm.Response, error) {
			asked = append(asked, req)
			return llmtest.Say("done")(req)
		}
		m := llmtest.Script(t, reads(700), reads(1400), reads(2100), reads(2800), summary, after)
		out := w.run(t, m, job)
		if out.Status != execution.Completed || out.ModelCalls != 6 || len(asked) != 2 {
			t.Fatalf("the run is %+v, asked %d times", out, len(asked))
		}
		if text := asked[0].Messages[0].Text; len(asked[0].Tools) > 0 || !strings.Contains(text, `"page":1`) {
			t.Errorf("the summary is asked for with %d tools and %q", len(asked[0].Tools), text)
		}
		messages := asked[1].Messages
		if !strings.HasPrefix(messages[0].Text, "Begin.") || !strings.Contains(messages[0].Text, "pages 1 and 2 were read") {
			t.Errorf("it goes on from %q", messages[0].Text)
		}
		if len(messages) >= 9 || messages[1].Role != llm.RoleAssistant {
			t.Errorf("it goes on with %d messages, the second of role %s", len(messages), messages[1].Role)
		}
		paired(t, messages)
		if got := len(w.results(t, job)); got != 4 {
			t.Errorf("the journal keeps %d results", got)
		}
		resumed := w.run(t, llmtest.Script(t), job) // the resumed run has the same conversation
		if resumed.Answer != "done" || resumed.ModelCalls != 6 {
			t.Errorf("resumed it is %+v", resumed)
		}
	})
}

// paired checks that each call has its result in the next message.
func paired(t testing.TB, messages []llm.Message) {
	t.Helper()
	for i, m := range messages {
		if len(m.Calls) == 0 {
			continue
		}
		if i+1 == len(messages) || len(messages[i+1].Results) != len(m.Calls) || messages[i+1].Results[0].CallID != m.Calls[0].ID {
			t.Errorf("message %d has calls without results", i)
		}
	}
}

// TestTwiceCompactedThereIsOneSummary: a second compaction replaces the first summary.
func TestTwiceCompactedThereIsOneSummary(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, long())
		job.Window = 2000
		var last llm.Request
		m := llmtest.Script(t, reads(700), reads(1600), llmtest.Say("first summary"), reads(1600), llmtest.Say("second summary"),
			func(req llm.Request) (llm.Response, error) { last = req; return llmtest.Say("done")(req) })
		if out := w.run(t, m, job); out.Status != execution.Completed {
			t.Fatalf("the run is %+v", out)
		}
		text := last.Messages[0].Text
		if strings.Contains(text, "first summary") || strings.Count(text, "second summary") != 1 || !strings.HasPrefix(text, "Begin.") {
			t.Errorf("it goes on from %q", text)
		}
		paired(t, last.Messages)
	})
}

// TestAConversationTheModelFindsTooLongIsCompacted: this happens even if the size of the window is
// unknown.
func TestAConversationTheModelFindsTooLongIsCompacted(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		tooLong := llmtest.Fail(&llm.Error{Class: llm.ClassContextTooLong, Provider: "script"})
		job := w.job(t, long())
		out := w.run(t, llmtest.Script(t, reads(10), reads(10), tooLong, llmtest.Say("a summary"), llmtest.Say("done")), job)
		if out.Status != execution.Completed || out.Answer != "done" {
			t.Errorf("the run is %+v", out)
		}
		job = w.job(t, long())
		out = w.run(t, llmtest.Script(t, tooLong), job) // there is nothing to compact
		if out.Status != execution.Failed || !strings.Contains(out.Reason, string(llm.ClassContextTooLong)) {
			t.Errorf("the run is %+v", out)
		}
	})
}
