package reason_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// narrow is a model that refuses requests which do not fit into its window together with the
// answer. It counts a fixed number of bytes as a token and reports its count, unless it is silent.
type narrow struct {
	t             testing.TB
	window, bytes int
	silent        bool
	next          llm.Model
	largest       int // largest accepted request, in tokens
}

func (*narrow) Name() string { return "narrow" }

func (m *narrow) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	bytes := len(req.System)
	for _, tool := range req.Tools {
		bytes += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
	}
	for _, said := range req.Messages {
		bytes += len(said.Text)
		for _, c := range said.Calls {
			bytes += len(c.Name) + len(c.Arguments)
		}
		for _, r := range said.Results {
			bytes += len(r.Content)
		}
	}
	prompt := bytes / m.bytes
	if prompt+req.MaxTokens > m.window {
		return llm.Response{}, &llm.Error{Class: llm.ClassContextTooLong, Provider: m.Name(), Err: fmt.Errorf("%d and %d tokens", prompt, req.MaxTokens)}
	}
	m.largest = max(m.largest, prompt)
	resp, err := m.next.Generate(ctx, req, onDelta)
	if resp.Usage = (llm.Usage{}); !m.silent {
		resp.Usage = llm.Usage{PromptTokens: max(prompt, 1), CompletionTokens: 5}
	}
	return resp, err
}

// page returns a skill that answers with the given number of bytes, different each time.
func page(bytes int) skill.Skill {
	return does("page", anything, func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
		return c.Key + strings.Repeat(" word", bytes/5), nil
	})
}

// pages returns an answer with n calls.
func pages(n int) llmtest.Step {
	var calls []string
	for i := range n {
		calls = append(calls, "page", fmt.Sprintf(`{"n":%d}`, i))
	}
	return llmtest.Call(calls...)
}

// sum is a model that answers requests for a summary with one, and other requests with the next
// step.
type sum struct {
	llm.Model
	summaries int
}

func (m *sum) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if len(req.Tools) > 0 {
		return m.Model.Generate(ctx, req, onDelta)
	}
	m.summaries++
	return llmtest.Say("Pages were read.")(req)
}

// TestTheResultsOfAStepShareTheWindow: results that do not fit are cut, and the run continues.
func TestTheResultsOfAStepShareTheWindow(t *testing.T) {
	if testing.Short() {
		t.Skip("its large pages take half a minute under the race detector")
	}
	onEach(t, func(t *testing.T, w *world) {
		for name, c := range map[string]struct{ window, results, bytes, each int }{
			"one in 8k":                   {8_192, 1, 60_000, 4},
			"five in 32k":                 {32_000, 5, 60_000, 4},
			"sixteen in 128k":             {128_000, 16, 60_000, 4},
			"sixteen in 8k":               {8_192, 16, 60_000, 4},
			"sixteen in 8k, dense tokens": {8_192, 16, 60_000, 2},
			"short ones":                  {8_192, 3, 1_000, 4},
		} {
			for _, silent := range []bool{false, true} {
				job := w.job(t, page(c.bytes))
				job.Window, job.MaxTokens = c.window, 4096
				m := &narrow{t: t, window: c.window, bytes: c.each, silent: silent}
				m.next = &sum{Model: llmtest.Script(t, pages(c.results), pages(c.results), pages(1), llmtest.Say("done"))}
				out := w.run(t, m, job)
				if out.Status != execution.Completed || out.Answer != "done" {
					t.Errorf("%s, silent %t: the run is %+v", name, silent, out)
				}
				if c.bytes > c.window && m.largest < c.window/3 {
					t.Errorf("%s, silent %t: at most %d tokens were asked of %d", name, silent, m.largest, c.window)
				}
				again := w.run(t, llmtest.Script(t), job) // the resumed run has the same conversation
				if again.Answer != "done" || again.Progress.Usage != out.Progress.Usage {
					t.Errorf("%s, silent %t: resumed it is %+v, and was %+v", name, silent, again, out)
				}
			}
		}
	})
}

// TestTheLongestResultIsCutFirst: a cut result says how long it was.
func TestTheLongestResultIsCutFirst(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var seen []llm.ToolResult
		job := w.job(t, page(30_000), does("short", anything, fineSkill))
		job.Window = 4_096
		m := &narrow{t: t, window: 4_096, bytes: 4}
		m.next = llmtest.Script(t, llmtest.Call("short", `{}`, "page", `{}`, "short", `{"n":1}`), func(req llm.Request) (llm.Response, error) {
			seen = req.Messages[len(req.Messages)-1].Results
			return llmtest.Say("done")(req)
		})
		if out := w.run(t, m, job); out.Status != execution.Completed {
			t.Fatalf("the run is %+v", out)
		}
		whole := w.results(t, job)
		if seen[0].Content != whole[0].Content || seen[2].Content != whole[2].Content {
			t.Errorf("short ones became %q and %q", seen[0].Content, seen[2].Content)
		}
		cut := seen[1].Content
		if n := len(cut); n < 4_000 || n > 12_000 || !strings.HasPrefix(whole[1].Content, cut[:1_000]) {
			t.Errorf("the long one has %d bytes", n)
		}
		length := len(job.Execution.ID) + len(`":1.2"`) + 30_000
		if want := fmt.Sprintf("this is the beginning of %d bytes)", length); !strings.HasSuffix(cut, want) {
			t.Errorf("it ends with %q, want %q", cut[len(cut)-60:], want)
		}
	})
}

// TestAWindowThatIsSmallerThanItWasSaidToBe: the model refuses the request as too long, and gets a
// shorter one.
func TestAWindowThatIsSmallerThanItWasSaidToBe(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, window := range map[string]int{"not known": 0, "said to be larger": 16_000} {
			job := w.job(t, page(60_000))
			job.Window = window
			m := &narrow{t: t, window: 8_192, bytes: 4}
			m.next = &sum{Model: llmtest.Script(t, pages(1), pages(2), llmtest.Say("done"))}
			if out := w.run(t, m, job); out.Status != execution.Completed {
				t.Errorf("%s: the run is %+v", name, out)
			}
		}
	})
}

// TestWhatAServerDoesNotReportIsEstimated: the conversation is compacted, and the tokens are
// counted and marked as an estimate.
func TestWhatAServerDoesNotReportIsEstimated(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, reported := range map[string]llm.Usage{"nothing": {}, "the answer's tokens alone": {CompletionTokens: 7}} {
			job := w.job(t, page(2_000))
			job.Window = 8_192
			job.Stops = []reason.Stop{reason.MaxSteps(61)}
			var spent llm.Usage
			job.Spent = func(u llm.Usage) { spent = spent.Plus(u) }
			steps := make([]llmtest.Step, 60)
			for i := range steps {
				steps[i] = llmtest.Call("page", fmt.Sprintf(`{"n":%d}`, i))
			}
			s := &sum{Model: llmtest.Script(t, append(steps, llmtest.Say("done"))...)}
			m := &mute{Model: s, usage: reported}
			out := w.run(t, m, job)
			if out.Status != execution.Completed || s.summaries == 0 || m.largest > 8_192 {
				t.Errorf("%s: %d summaries, the largest request has %d tokens; the run is %+v", name, s.summaries, m.largest, out)
			}
			if spent.PromptTokens < 60*500 || spent.CompletionTokens == 0 || !spent.Estimated || spent != out.Usage {
				t.Errorf("%s: it used %+v, the run says %+v", name, spent, out.Usage)
			}
			var body struct{ Usage struct{ Estimated bool } }
			if err := json.Unmarshal(w.journal(t, job)[1].Body, &body); err != nil || !body.Usage.Estimated {
				t.Errorf("%s: the journal does not say that it is an estimate: %v", name, err)
			}
		}
	})
}

// mute is a model that reports the same usage for every request.
type mute struct {
	llm.Model
	usage   llm.Usage
	largest int
}

func (m *mute) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	raw, err := json.Marshal(req)
	if err != nil {
		return llm.Response{}, err
	}
	m.largest = max(m.largest, len(raw)/4)
	resp, err := m.Model.Generate(ctx, req, onDelta)
	resp.Usage = m.usage
	return resp, err
}

// TestABudgetStopsWhatIsEstimated: a server that reports no usage spends the budget nevertheless.
func TestABudgetStopsWhatIsEstimated(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, page(2_000))
		meter := &settled{}
		steps := make([]llmtest.Step, 20)
		for i := range steps {
			steps[i] = llmtest.Call("page", fmt.Sprintf(`{"n":%d}`, i))
		}
		r := w.runner(&mute{Model: llmtest.Script(t, steps...)})
		r.Meter = meter
		out, err := r.Run(job.Under(t.Context()), job)
		if err != nil || out.Status != execution.Parked || !out.Halted || out.Steps >= 20 || meter.used < 5_000 || meter.used != out.Usage.TotalTokens() {
			t.Errorf("settled %d tokens, the run is %+v, %v", meter.used, out, err)
		}
	})
}

// settled is a budget of 5,000 tokens.
type settled struct{ used int }

func (m *settled) Reserve(_ context.Context, c reason.Cost) (int, reason.Settle, error) {
	if m.used >= 5_000 {
		return 0, nil, &reason.SpentError{Why: "the budget is used up"}
	}
	return c.Output, func(_ context.Context, used *llm.Response, _ []string) (int64, error) {
		m.used += used.Usage.TotalTokens()
		return 0, nil
	}, nil
}

// TestMoreSkillsThanAModelCanBeTold: the definitions of a thousand skills exceed the window. The
// run finds the skill that it needs and calls it through run_skill.
func TestMoreSkillsThanAModelCanBeTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var ran []string
		schema := `{"type": "object", "properties": {"` + strings.Repeat("x", 60) + `": {"type": "string", "description": "` + strings.Repeat("what it is. ", 20) + `"}}}`
		skills := own(t)
		for i := range 1_000 {
			k := does(fmt.Sprintf("do_%d", i), schema, func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
				ran = append(ran, fmt.Sprint(i))
				return "done", nil
			})
			k.Kind = skill.HTTP
			skills = append(skills, k)
		}
		job := w.job(t, skills...)
		job.Window = 8_192
		m := llmtest.Script(t, llmtest.Call("list_skills", `{}`), llmtest.Call("list_skills", `{"q": "do_77", "parameters": true}`),
			llmtest.Call("run_skill", `{"skill": "do_777"}`), llmtest.Call("do_778", `{}`), llmtest.Say("done"))
		out := w.run(t, &narrow{window: 8_192, bytes: 3, next: m}, job)
		if out.Status != execution.Completed || !slices.Equal(ran, []string{"777", "778"}) {
			t.Errorf("ran %q, the run is %+v", ran, out)
		}
		var offered [][]string
		for i, req := range m.Requests() {
			var names []string
			for _, tool := range req.Tools {
				names = append(names, tool.Name)
			}
			offered = append(offered, names)
			if raw, err := json.Marshal(req.Tools); err != nil || len(raw) > 8_192*4/4 {
				t.Errorf("request %d has %d bytes of tools, %v", i, len(raw), err)
			}
		}
		if !slices.Equal(offered[0], []string{"list_skills", "run_skill"}) || !slices.Equal(offered[4], []string{"list_skills", "run_skill", "do_777", "do_778"}) {
			t.Errorf("offered were %q", offered)
		}
		listed := w.results(t, job)
		if !strings.Contains(listed[0].Content, `"more":952`) || !strings.Contains(listed[1].Content, `"do_777"`) || strings.Contains(listed[1].Content, `"do_1"`) {
			t.Errorf("listed were %.300s and %.300s", listed[0].Content, listed[1].Content)
		}
	})
}

// ponders is a model that thinks for 2,000 tokens before it writes a summary.
type ponders struct{ sum }

func (m *ponders) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	resp, err := m.sum.Generate(ctx, req, onDelta)
	if len(req.Tools) == 0 && req.MaxTokens < 2_100 {
		resp.Text, resp.StopReason = "", llm.StopMaxTokens
	}
	return resp, err
}

// TestAModelThatThinksWritesASummary: what it thinks counts as part of its answer, and leaves room for the summary.
func TestAModelThatThinksWritesASummary(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, page(30_000))
		job.Window, job.MaxTokens = 16_000, 4096
		m := &ponders{sum{Model: llmtest.Script(t, pages(1), pages(1), pages(1), llmtest.Say("done"))}}
		out := w.run(t, &narrow{t: t, window: job.Window, bytes: 4, next: m}, job)
		if out.Status != execution.Completed || out.Answer != "done" {
			t.Errorf("after %d requests for a summary the run is %+v", m.summaries, out)
		}
	})
}
