package reason_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

func TestAnAnswerEndsTheRun(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		var spent llm.Usage
		job.Spent = func(u llm.Usage) { spent = spent.Plus(u) }
		m := llmtest.Script(t, llmtest.Say("done"))
		out := w.run(t, m, job)
		want := reason.Outcome{Status: execution.Completed, Answer: "done", Trust: execution.Trusted}
		want.Steps, want.ModelCalls, want.Usage, want.LongestStep = 1, 1, llm.Usage{PromptTokens: 10, CompletionTokens: 5}, out.LongestStep
		if diff := cmp.Diff(want, out); diff != "" {
			t.Error(diff)
		}
		if spent != want.Usage {
			t.Errorf("spent %+v", spent)
		}
		req := m.Requests()[0]
		if req.System != job.System || req.MaxTokens != 100 || len(req.Tools) != 1 || !cmp.Equal(req.Messages, job.Messages) {
			t.Errorf("the model was told %+v", req)
		}
		if got := w.journal(t, job); len(got) != 2 || got[0].Kind != execution.Input || got[1].Kind != execution.Model || got[1].Step != 1 {
			t.Errorf("the journal is %+v", got)
		}
		e := w.close(t, job, out)
		if e.Status != execution.Completed || e.PromptTokens != 10 || e.CompletionTokens != 5 || e.Error != "" || e.EndedAt == nil {
			t.Errorf("the execution is %+v", e)
		}
		if got := w.actions(t, job); len(got) != 0 {
			t.Errorf("the log says %+v", got)
		}
	})
}

func TestACallGoesThroughTheSkillAndBack(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		m := llmtest.Script(t, llmtest.Call("echo_back", `{"text": "hi <b>"}`), llmtest.Say("done"))
		if out := w.run(t, m, job); out.Status != execution.Completed || out.Steps != 2 {
			t.Errorf("got %+v", out)
		}
		messages := m.Requests()[1].Messages
		if len(messages) != 3 || messages[1].Role != llm.RoleAssistant || messages[2].Role != llm.RoleTool {
			t.Fatalf("the model was told %+v", messages)
		}
		result := messages[2].Results[0]
		if result.CallID != messages[1].Calls[0].ID || result.Name != "echo_back" || result.IsError || !sameJSON(result.Content, `{"text": "hi <b>"}`) {
			t.Errorf("the result is %+v", result)
		}
		actions := w.actions(t, job)
		if len(actions) != 1 {
			t.Fatalf("the log has %d actions", len(actions))
		}
		a := actions[0]
		if a.Skill != "echo_back" || a.Status != activity.Success || a.Execution != job.Execution.ID || a.Attempt != 1 || a.Usage != nil ||
			!sameJSON(string(a.Input), `{"text": "hi <b>"}`) || !sameJSON(string(a.Output), `{"text": "hi <b>"}`) {
			t.Errorf("the action is %+v", a)
		}
	})
}

func sameJSON(got, want string) bool {
	var a, b any
	return json.Unmarshal([]byte(got), &a) == nil && json.Unmarshal([]byte(want), &b) == nil && cmp.Equal(a, b)
}

func TestCallsOfOneStepKeepTheirOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		var calls, want []string
		for i := range 5 {
			want = append(want, fmt.Sprintf(`{"text":"%d"}`, i))
			calls = append(calls, "echo_back", want[i])
		}
		m := llmtest.Script(t, llmtest.Call(calls...), llmtest.Say("done"))
		w.run(t, m, job)
		tool := m.Requests()[1].Messages[2]
		var got []string
		for i, r := range tool.Results {
			got = append(got, strings.ReplaceAll(r.Content, " ", ""))
			if r.CallID != m.Requests()[1].Messages[1].Calls[i].ID {
				t.Errorf("result %d answers call %s", i, r.CallID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("results %v, want %v", got, want)
		}
		var places []string
		for _, e := range w.journal(t, job) {
			if e.Call != "" {
				places = append(places, e.Call)
			}
		}
		if !slices.Equal(places, []string{"1.1", "1.2", "1.3", "1.4", "1.5"}) {
			t.Errorf("the calls are named %v", places)
		}
	})
}

func TestAnUnknownToolIsMendedByTheModel(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo(), w.remember("save_memory", fine))
		long := strings.Repeat("x", 500)
		m := llmtest.Script(t, llmtest.Call("save_memories", `{}`), llmtest.Call(long, `{}`), llmtest.Call("echo_back", `{"text": "ok"}`), llmtest.Say("done"))
		if out := w.run(t, m, job); out.Status != execution.Completed {
			t.Fatalf("got %+v", out)
		}
		results := w.results(t, job)
		note := results[0].Content
		if !results[0].IsError || !strings.Contains(note, `"save_memories" does not exist`) || strings.Index(note, "save_memory,") > strings.Index(note, "echo_back") {
			t.Errorf("the note is %s", note)
		}
		if m.Requests()[1].Messages[2].Results[0].Content != note {
			t.Errorf("the model was told %+v", m.Requests()[1].Messages[2])
		}
		if note := results[1].Content; len(note) > 400 {
			t.Errorf("the note on a long name has %d bytes", len(note))
		}
		if got := w.actions(t, job); len(got) != 1 || got[0].Skill != "echo_back" {
			t.Errorf("the log says %+v", got)
		}
	})
}

func TestWrongArgumentsAreAnsweredWithEverythingAndTheSchema(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		m := llmtest.Script(t, llmtest.Call("echo_back", `{"n": 0, "more": 1}`), llmtest.Call("echo_back", `{"text": "ok"}`), llmtest.Say("done"))
		if out := w.run(t, m, job); out.Status != execution.Completed {
			t.Fatalf("got %+v", out)
		}
		note := w.results(t, job)[0]
		for _, part := range []string{"/n:", "'text'", "'more'", `"maxLength": 20`, "do not fit"} {
			if !note.IsError || !strings.Contains(note.Content, part) {
				t.Errorf("%s is not in %s", part, note.Content)
			}
		}
		if strings.Contains(note.Content, "does not exist") {
			t.Errorf("the note is that of an unknown tool: %s", note.Content)
		}
		refused := w.logged.line(t, "call refused")
		if refused["arguments"] != `{"n": 0, "more": 1}` || refused["tool"] != "echo_back" || refused["note"] != note.Content || refused["execution_id"] != job.Execution.ID {
			t.Errorf("logged %v", refused)
		}
	})
}

func TestBrokenArgumentsAreMended(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, arguments := range []string{`{"text": "x`, `not JSON`, `["x"]`, `null`, "{\"text\": \"x\"\x00}", strings.Repeat("[", 20_000)} {
			job := w.job(t, echo())
			m := llmtest.Script(t, llmtest.Call("echo_back", arguments), llmtest.Call("echo_back", `{"text": "ok"}`), llmtest.Say("done"))
			if out := w.run(t, m, job); out.Status != execution.Completed {
				t.Fatalf("%.40q: %+v", arguments, out)
			}
			if r := w.results(t, job); !r[0].IsError || !strings.Contains(r[0].Content, "not a JSON object") || r[1].IsError {
				t.Errorf("%.40q: %+v", arguments, r)
			}
		}
		job := w.job(t, does("free", anything, echo().Run))
		m := llmtest.Script(t, llmtest.Call("free", "  "), llmtest.Say("done"))
		if w.run(t, m, job); w.results(t, job)[0].Content != "{}" {
			t.Errorf("blank arguments are %+v", w.results(t, job))
		}
	})
}

func TestANoteIsOfBoundedLength(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		var many []string
		for i := range 500 {
			many = append(many, fmt.Sprintf(`"%s%d": 1`, strings.Repeat("x", 100), i))
		}
		m := llmtest.Script(t, llmtest.Call("echo_back", `{`+strings.Join(many, ",")+`}`), llmtest.Say("done"))
		w.run(t, m, job)
		if note := w.results(t, job)[0].Content; len(note) > 8_000 {
			t.Errorf("the note has %d bytes", len(note))
		}
		free := w.job(t, does("list", `{"type": "object", "additionalProperties": {"type": "integer"}}`, echo().Run))
		m = llmtest.Script(t, llmtest.Call("list", `{`+strings.ReplaceAll(strings.Join(many, ","), ": 1", `: "x"`)+`}`), llmtest.Say("done"))
		w.run(t, m, free)
		if note := w.results(t, free)[0].Content; len(note) > 10_000 || !strings.Contains(note, "and 480 more") {
			t.Errorf("the note has %d bytes: %.200s", len(note), note)
		}
	})
}

func TestNamesDifferingInCaseAndSeparatorsAreMatchedAndLogged(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		m := llmtest.Script(t, llmtest.Call("EchoBack", `{"text": "x"}`), llmtest.Say("done"))
		w.run(t, m, job)
		if r := w.results(t, job)[0]; r.IsError || r.Name != "EchoBack" { // providers expect the name that they gave
			t.Errorf("the result is %+v", r)
		}
		if a := w.actions(t, job)[0]; a.Skill != "echo_back" {
			t.Errorf("the log says %s", a.Skill)
		}
		if line := w.logged.line(t, "skill name matched"); line["asked"] != "EchoBack" || line["skill"] != "echo_back" {
			t.Errorf("logged %v", line)
		}
	})
}

func TestRetriesEndExactlyThen(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		bad := map[string]llmtest.Step{
			"unknown": llmtest.Call("nothing", `{}`), "arguments": llmtest.Call("echo_back", `{}`), "broken": llmtest.Call("echo_back", `{`),
		}
		for name, step := range bad {
			for retries := range 4 {
				job := w.job(t, echo())
				job.Retries = retries
				good := llmtest.Call("echo_back", `{"text": "x"}`)
				m := llmtest.Script(t, append([]llmtest.Step{good}, slices.Repeat([]llmtest.Step{step}, retries+1)...)...)
				out := w.run(t, m, job)
				if out.Status != execution.Stalled || out.ModelCalls != retries+2 {
					t.Fatalf("%s with %d retries: %+v", name, retries, out)
				}
				if out.Summary != "done so far: echo_back" || !strings.Contains(out.Reason, fmt.Sprintf("%d answers in a row", retries+1)) {
					t.Errorf("%s with %d retries: %q, %q", name, retries, out.Summary, out.Reason)
				}
				mended := w.job(t, echo())
				mended.Retries = retries
				m = llmtest.Script(t, append(slices.Repeat([]llmtest.Step{step}, retries), good, llmtest.Say("done"))...)
				if out := w.run(t, m, mended); out.Status != execution.Completed {
					t.Errorf("%s mended in %d tries: %+v", name, retries, out)
				}
			}
		}
	})
}

func TestAStallIsFlaggedInTheLog(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		job.Retries = 0
		m := llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`), llmtest.Call(strings.Repeat("ü", 3_000), `{}`))
		out := w.run(t, m, job)
		e := w.close(t, job, out)
		if e.Status != execution.Stalled || !strings.HasPrefix(e.Error, "stalled: ") || len(e.Error) > 300 {
			t.Errorf("the execution is %s: %s", e.Status, e.Error)
		}
		actions := w.actions(t, job)
		if len(actions) != 2 {
			t.Fatalf("the log says %+v", actions)
		}
		a := actions[1]
		var output struct{ Summary, Reason string }
		if err := json.Unmarshal(a.Output, &output); err != nil {
			t.Fatal(err)
		}
		if a.Status != activity.Error || a.Error != e.Error || output.Summary != "done so far: echo_back" || output.Reason != out.Reason || a.Execution != job.Execution.ID {
			t.Errorf("the stall is flagged as %+v", a)
		}
	})
}

func TestTheMistakesOfOneAnswerAreOneStrike(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		m := llmtest.Script(t, llmtest.Call("a", `{}`, "b", `{}`, "echo_back", `{}`, "c", `{`), llmtest.Call("echo_back", `{"text": "x"}`), llmtest.Say("done"))
		if out := w.run(t, m, job); out.Status != execution.Completed {
			t.Errorf("got %+v", out)
		}
		if r := w.results(t, job); len(r) != 5 || !r[0].IsError || !r[3].IsError || r[4].IsError {
			t.Errorf("the results are %+v", r)
		}
	})
}

// TestATurnOfGoodCallsResetsTheStrikesOfTheirTools: an answer with only possible calls of a tool
// resets the misses of that tool only. A good call beside a bad one, or a good call of another
// tool, resets nothing.
func TestATurnOfGoodCallsResetsTheStrikesOfTheirTools(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		alone := echo()
		alone.Name, alone.Serial = "alone", true
		text := func(n int) string { return fmt.Sprintf(`{"text": "%d"}`, n) }
		for name, c := range map[string]struct {
			answer func(n int) []string // n counts from 0
			stalls int                  // after this many answers; 0: never
		}{
			"a bad call in each":             {func(int) []string { return []string{"echo_back", `{}`} }, 3},
			"beside one of another tool":     {func(n int) []string { return []string{"alone", text(n), "echo_back", `{}`} }, 3},
			"beside one of the same tool":    {func(n int) []string { return []string{"echo_back", `{}`, "echo_back", text(n)} }, 3},
			"behind one of the same tool":    {func(n int) []string { return []string{"alone", text(n), "alone", `{}`} }, 3},
			"other arguments each time":      {func(n int) []string { return []string{"alone", text(n), "echo_back", fmt.Sprintf(`{"x": %d}`, n)} }, 3},
			"between those of another":       {func(n int) []string { return [][]string{{"nothing", `{}`}, {"echo_back", text(n)}}[n%2] }, 5},
			"between those of the same":      {func(n int) []string { return [][]string{{"echo_back", `{}`}, {"echo_back", text(n)}}[n%2] }, 0},
			"another tool that is not there": {func(n int) []string { return []string{fmt.Sprint("nothing", n), `{}`} }, 3},
		} {
			job := w.job(t, echo(), alone)
			steps := []llmtest.Step{}
			want, last := execution.Stalled, c.stalls
			if c.stalls == 0 {
				want, last = execution.Completed, 8
			}
			for n := range last {
				steps = append(steps, llmtest.Call(c.answer(n)...))
			}
			if want == execution.Completed {
				steps = append(steps, llmtest.Say("done"))
			}
			if out := w.run(t, llmtest.Script(t, steps...), job); out.Status != want || out.ModelCalls != len(steps) {
				t.Errorf("%s: %+v", name, out)
			}
		}
	})
}

// ends returns an answer with a text and a stop reason.
func ends(text string, why llm.StopReason) llmtest.Step {
	return func(req llm.Request) (llm.Response, error) {
		resp, err := llmtest.Say(text)(req)
		resp.StopReason = why
		return resp, err
	}
}

// TestWhoSaysNothingIsAskedOnceMore: an empty answer, or one that announces a call and has none, is
// requested once more.
func TestWhoSaysNothingIsAskedOnceMore(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		good := llmtest.Call("echo_back", `{"text": "x"}`)
		for name, nothing := range map[string]llmtest.Step{
			"an empty answer":     ends(" \n", llm.StopEndTurn),
			"a call that is none": ends("I look it up.", llm.StopToolUse),
			"both, and no words":  ends("", llm.StopToolUse),
		} {
			for _, c := range []struct {
				steps  []llmtest.Step
				status execution.Status
			}{
				{[]llmtest.Step{good, nothing, llmtest.Say("done")}, execution.Completed},
				{[]llmtest.Step{nothing, good, nothing, llmtest.Say("done")}, execution.Completed}, // counted anew
				{[]llmtest.Step{good, nothing, nothing}, execution.Stalled},
			} {
				job := w.job(t, echo())
				m := llmtest.Script(t, c.steps...)
				out := w.run(t, m, job)
				if out.Status != c.status || out.ModelCalls != len(c.steps) || c.status == execution.Completed && out.Answer != "done" {
					t.Errorf("%s, in %d answers: %+v", name, len(c.steps), out)
				}
				last := m.Requests()[len(c.steps)-1].Messages
				if text := last[len(last)-1].Text; !strings.Contains(text, "answer was empty") {
					t.Errorf("%s: the model is told %q", name, text)
				}
				if again := w.run(t, llmtest.Script(t), job); again.Status != out.Status || again.Reason != out.Reason || again.Answer != out.Answer {
					t.Errorf("%s: resumed it is %+v, and was %+v", name, again, out)
				}
			}
		}
	})
}
