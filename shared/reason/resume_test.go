package reason_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// play is a run that can be repeated: the model's answers step by step, and the limits.
type play struct {
	answers [][]string // names and arguments of the calls; without a call the run ends
	failure error      // error of the model after the answers
	retries int
	steps   int
}

// script returns the model from its n-th answer on.
func (p play) script(t testing.TB, n int) *llmtest.Model {
	var steps []llmtest.Step
	for _, calls := range p.answers[min(n, len(p.answers)):] {
		if len(calls) == 0 {
			steps = append(steps, llmtest.Say("done"))
			continue
		}
		steps = append(steps, llmtest.Call(calls...))
	}
	if p.failure != nil {
		steps = append(steps, llmtest.Fail(p.failure))
	}
	return llmtest.Script(t, steps...)
}

// stage runs plays. Its skills count their calls outside of the database.
type stage struct {
	*world
	ran   *counts
	hook  func(key string) error // called after a skill has done its work; its error is the skill's
	place string                 // replaces the execution's id, so that two runs can be compared
}

func (s *stage) job(t testing.TB, p play) reason.Job {
	t.Helper()
	counted := func(name string, then func() (any, error)) skill.Skill {
		return does(name, `{"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false}`,
			func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
				s.ran.add(strings.TrimPrefix(c.Key, s.place))
				if s.hook != nil {
					if err := s.hook(c.Key); err != nil {
						return nil, err
					}
				}
				return then()
			})
	}
	remembers := s.remember("remember", fine)
	inner := remembers.Run
	remembers.Run = func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
		s.ran.add(strings.TrimPrefix(c.Key, s.place))
		value, err := inner(ctx, tx, c)
		if err == nil && s.hook != nil {
			err = s.hook(c.Key)
		}
		return value, err
	}
	job := s.world.job(t,
		counted("good", func() (any, error) { return map[string]int{"n": 1}, nil }),
		counted("sorry", func() (any, error) { return nil, skill.Refuse("not today") }),
		counted("throws", func() (any, error) { panic("thrown") }),
		remembers,
	)
	s.place = job.Execution.ID + ":"
	job.Retries, job.Stops = p.retries, []reason.Stop{reason.MaxSteps(p.steps)}
	return job
}

// cutAt begins a job with the journal that another run had when it was killed.
func (s *stage) cutAt(t testing.TB, p play, entries []execution.Entry) reason.Job {
	t.Helper()
	job := s.job(t, p)
	err := s.lanes.InHold(context.Background(), job.Hold, func(_ context.Context, tx lane.Tx) error {
		for _, e := range entries {
			if err := s.runs.Append(tx, job.Execution, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// end returns the part of an outcome in which two runs can be compared.
func end(out reason.Outcome) reason.Outcome {
	out.LongestStep, out.Unlogged = 0, nil // durations
	return out
}

func answersIn(entries []execution.Entry) (n int) {
	for _, e := range entries {
		if e.Kind == execution.Model {
			n++
		}
	}
	return n
}

// resumesFromEverywhere plays p without interruption, and then resumes it from each prefix of its
// journal.
func (s *stage) resumesFromEverywhere(t testing.TB, p play) {
	t.Helper()
	s.ran = &counts{}
	whole := s.job(t, p)
	want := s.run(t, p.script(t, 0), whole)
	entries, story := s.journal(t, whole), s.told(t, whole)
	ranWhole := s.ran
	for n := 0; n <= len(entries); n++ {
		s.ran = &counts{}
		job := s.cutAt(t, p, entries[:n])
		recorded := map[string]bool{}
		for _, e := range entries[:n] {
			if e.Kind == execution.Result {
				recorded[e.Call] = true
			}
		}
		got := s.run(t, p.script(t, answersIn(entries[:n])), job)
		if diff := cmp.Diff(end(want), end(got)); diff != "" {
			t.Fatalf("resumed after entry %d of %d it ended otherwise: %s", n, len(entries), diff)
		}
		if diff := cmp.Diff(story, s.told(t, job)); diff != "" {
			t.Fatalf("resumed after entry %d of %d its journal differs: %s", n, len(entries), diff)
		}
		for call, times := range ranWhole.n {
			wantTimes := times
			if recorded[call] {
				wantTimes = 0
			}
			if s.ran.of(call) != wantTimes {
				t.Fatalf("resumed after entry %d of %d call %s ran %d times, want %d", n, len(entries), call, s.ran.of(call), wantTimes)
			}
		}
	}
}

func TestARunResumesFromEveryEntryOfItsJournal(t *testing.T) {
	good, remember, sorry, throws := []string{"good", `{"n": 1}`}, []string{"remember", `{}`}, []string{"sorry", `{}`}, []string{"throws", `{}`}
	unknown, wrong, broken := []string{"nothing", `{}`}, []string{"good", `{"x": 1}`}, []string{"good", `{`}
	down := &llm.Error{Class: llm.ClassUnavailable, Provider: "script"}
	plays := map[string]play{
		"an answer at once":                    {answers: [][]string{{}}, retries: 2, steps: 20},
		"calls, one a step":                    {answers: [][]string{good, remember, good, {}}, retries: 2, steps: 20},
		"several calls in a step":              {answers: [][]string{slices.Concat(good, remember, sorry, throws, unknown, good), good, {}}, retries: 2, steps: 20},
		"mended mistakes":                      {answers: [][]string{unknown, wrong, good, broken, good, {}}, retries: 2, steps: 20},
		"stalled":                              {answers: [][]string{good, unknown, wrong, broken}, retries: 2, steps: 20},
		"stalled at once":                      {answers: [][]string{unknown}, retries: 0, steps: 20},
		"stalled in the middle of a step":      {answers: [][]string{slices.Concat(good, unknown, good, good)}, retries: 0, steps: 20},
		"the step limit":                       {answers: [][]string{good, slices.Concat(good, remember)}, retries: 2, steps: 2},
		"the step limit, and a stall":          {answers: [][]string{unknown, unknown}, retries: 1, steps: 2},
		"parked by the model's error":          {answers: [][]string{good, good}, failure: down, retries: 2, steps: 20},
		"failed by the model's error at once":  {failure: errors.New("odd"), retries: 2, steps: 20},
		"no step allowed":                      {retries: 2, steps: 0},
		"an answer behind a mistake, no retry": {answers: [][]string{slices.Concat(unknown, good)}, retries: 0, steps: 20},
	}
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		for name, p := range plays {
			t.Run(name, func(t *testing.T) {
				(&stage{world: newWorld(t, e)}).resumesFromEverywhere(t, p)
			})
		}
	})
}

// plays generates random plays.
func plays() *rapid.Generator[play] {
	return rapid.Custom(func(t *rapid.T) play {
		call := rapid.SampledFrom([][]string{
			{"good", `{"n": 1}`}, {"good", `{"n": 2.0}`}, {"Good", `{}`}, {"remember", `{}`}, {"sorry", `{}`}, {"throws", `{}`},
			{"nothing", `{}`}, {"good", `{"x": 1}`}, {"good", `{`}, {"a\x00b", "\xff"},
		})
		p := play{retries: rapid.IntRange(0, 2).Draw(t, "retries"), steps: rapid.IntRange(1, 6).Draw(t, "steps")}
		for _, calls := range rapid.SliceOfN(rapid.SliceOfN(call, 1, 4), 0, 5).Draw(t, "answers") {
			p.answers = append(p.answers, slices.Concat(calls...))
		}
		switch rapid.IntRange(0, 3).Draw(t, "end") {
		case 0:
			p.failure = &llm.Error{Class: llm.ClassRateLimit, Provider: "script"}
		case 1:
			p.failure = errors.New("odd")
		default:
			p.answers = append(p.answers, nil)
		}
		return p
	})
}

// quiet lets a script end early without failing the test.
type quiet struct{ testing.TB }

func (quiet) Errorf(string, ...any) {}

func TestAnyRunResumesFromAnywhere(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		s := &stage{world: newWorld(t, e)}
		rapid.Check(t, func(rt *rapid.T) {
			p := plays().Draw(rt, "play")
			s.ran = &counts{}
			whole := s.job(t, p)
			want := s.run(t, p.script(quiet{t}, 0), whole)
			entries, story := s.journal(t, whole), s.told(t, whole)
			cut := rapid.IntRange(0, len(entries)).Draw(rt, "cut")
			job := s.cutAt(t, p, entries[:cut])
			got := s.run(t, p.script(quiet{t}, answersIn(entries[:cut])), job)
			if diff := cmp.Diff(end(want), end(got)); diff != "" {
				rt.Fatalf("it ended otherwise: %s", diff)
			}
			if diff := cmp.Diff(story, s.told(t, job)); diff != "" {
				rt.Fatalf("its journal differs: %s", diff)
			}
		})
	})
}

// dies plays p with random deaths: during model calls before the answer is recorded, and in skills
// after their work.
func (s *stage) dies(t *testing.T, p play, when func() bool) (reason.Job, reason.Outcome, int) {
	s.ran = &counts{}
	died := errors.New("the process died")
	deaths := 0
	s.hook = func(string) error {
		if deaths < 20 && when() {
			deaths++
			return died
		}
		return nil
	}
	defer func() { s.hook = nil }()
	job := s.job(t, p)
	for {
		entries := s.journal(t, job)
		ctx, cancel := context.WithCancelCause(job.Under(t.Context()))
		script := p.script(quiet{t}, answersIn(entries))
		model := modelFunc(func(ctx context.Context, req llm.Request) (llm.Response, error) {
			resp, err := script.Generate(ctx, req, nil)
			if err == nil && s.hook("") != nil {
				cancel(died) // the answer arrived and was not recorded
			}
			return resp, err
		})
		out, err := s.runner(model).Run(ctx, job)
		alive := ctx.Err() == nil
		cancel(nil)
		if alive && err == nil {
			return job, out, deaths
		}
		if alive && !errors.Is(err, died) {
			t.Fatalf("after %d deaths: %v", deaths, err)
		}
		if after := s.journal(t, job); len(after) < len(entries) {
			t.Fatalf("the journal shrank from %d to %d entries", len(entries), len(after))
		}
	}
}

type modelFunc func(context.Context, llm.Request) (llm.Response, error)

func (f modelFunc) Generate(ctx context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	return f(ctx, req)
}
func (modelFunc) Name() string { return "func" }

func TestARunThatKeepsDyingEndsAsOneThatDoesNot(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		s := &stage{world: newWorld(t, e)}
		rapid.Check(t, func(rt *rapid.T) {
			p := plays().Draw(rt, "play")
			s.ran = &counts{}
			whole := s.job(t, p)
			want := s.run(t, p.script(quiet{t}, 0), whole)
			job, got, deaths := s.dies(t, p, func() bool { return rapid.IntRange(0, 3).Draw(rt, "dies") == 0 })
			if diff := cmp.Diff(end(want), end(got)); diff != "" {
				rt.Fatalf("after %d deaths it ended otherwise: %s", deaths, diff)
			}
			if diff := cmp.Diff(s.told(t, whole), s.told(t, job)); diff != "" {
				rt.Fatalf("after %d deaths its journal differs: %s", deaths, diff)
			}
			if a, b := s.effects(t, whole), s.effects(t, job); !slices.Equal(a, b) {
				rt.Fatalf("after %d deaths its effects are %q, want %q", deaths, b, a)
			}
		})
	})
}

// effects returns the logged actions and the saved memories of a job.
func (s *stage) effects(t testing.TB, job reason.Job) (out []string) {
	t.Helper()
	for _, a := range s.actions(t, job) {
		out = append(out, fmt.Sprint(a.Skill, " ", a.Status))
	}
	for _, content := range s.remembered(t) {
		if key, ours := strings.CutPrefix(content, job.Execution.ID+":"); ours {
			out = append(out, key)
		}
	}
	return out
}

func TestABrokenJournalIsNotResumed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		entry := func(seq int, kind execution.Kind, call, body string) execution.Entry {
			return execution.Entry{Seq: seq, Step: 1, Kind: kind, Status: execution.Succeeded, Call: call, Body: json.RawMessage(body)}
		}
		input := entry(1, execution.Input, "", `{"messages": []}`)
		answer := entry(2, execution.Model, "", `{"message": {"role": "assistant", "calls": [{"id": "a", "name": "echo_back", "arguments": "{}"}]}}`)
		for name, entries := range map[string][]execution.Entry{
			"a gap":             {input, entry(3, execution.Note, "", `{}`)},
			"an early result":   {input, entry(2, execution.Result, "1.1", `{}`)},
			"the wrong result":  {input, answer, entry(3, execution.Result, "1.2", `{}`)},
			"an early answer":   {input, answer, entry(3, execution.Model, "", `{}`)},
			"an unknown answer": {input, entry(2, execution.Model, "", `{"message": 1}`)},
			"an unknown input":  {entry(1, execution.Input, "", `{"messages": 1}`)},
		} {
			s := &stage{world: w, ran: &counts{}}
			job := s.cutAt(t, play{steps: 20}, entries)
			out, err := w.runner(llmtest.Script(t)).Run(t.Context(), job)
			if err == nil || !strings.Contains(err.Error(), job.Execution.ID) || out.Status != "" {
				t.Errorf("%s: %+v, %v", name, out, err)
			}
			if got := len(w.journal(t, job)); got != len(entries) {
				t.Errorf("%s: the journal has %d entries", name, got)
			}
		}
		s := &stage{world: w, ran: &counts{}}
		noted := s.cutAt(t, play{steps: 20}, []execution.Entry{input, entry(2, execution.Note, "", `{"x": 1}`), entry(3, execution.Called, "1.1", `{}`)})
		if out := w.run(t, llmtest.Script(t, llmtest.Say("done")), noted); out.Status != execution.Completed {
			t.Errorf("with notes: %+v", out)
		}
	})
}
