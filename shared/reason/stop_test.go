package reason_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

func TestTheStepLimitStalls(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		job.Stops = []reason.Stop{reason.MaxSteps(2)}
		call := llmtest.Call("echo_back", `{"text": "x"}`)
		out := w.run(t, llmtest.Script(t, call, call), job)
		if out.Status != execution.Stalled || out.Reason != "the limit of 2 steps was reached" || out.Summary != "done so far: echo_back, echo_back" {
			t.Errorf("got %+v", out)
		}
		job = w.job(t, echo())
		job.Stops = []reason.Stop{reason.MaxSteps(2)}
		if out := w.run(t, llmtest.Script(t, call, llmtest.Say("just in time")), job); out.Status != execution.Completed {
			t.Errorf("got %+v", out)
		}
	})
}

func TestStopsAreAskedInTurn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		park := func(context.Context, reason.Progress) *reason.Stopped {
			return &reason.Stopped{Status: execution.Parked, Reason: "enough"}
		}
		job.Stops = []reason.Stop{reason.MaxSteps(1), park, reason.MaxSteps(0)}
		out := w.run(t, llmtest.Script(t), job)
		if out.Status != execution.Parked || out.Reason != "enough" || out.Summary != "nothing was done yet" || out.Answer != "" {
			t.Errorf("got %+v", out)
		}
		if e := w.close(t, job, out); e.Status != execution.Parked || e.EndedAt != nil || e.Error != "" || len(w.actions(t, job)) != 0 {
			t.Errorf("the execution is %+v", e)
		}
	})
}

func TestDeadlineLeavesRoomForAnotherStep(t *testing.T) {
	stop := reason.Deadline()
	in := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx     context.Context
		longest time.Duration
		parks   bool
	}{
		"none":                {t.Context(), time.Hour, false},
		"no step yet":         {in(time.Hour), 0, false},
		"room for one":        {in(time.Hour), 39 * time.Minute, false},
		"no room for one":     {in(time.Hour), 41 * time.Minute, true},
		"over":                {over, 0, true},
		"over, by a deadline": {in(-time.Second), 0, true},
	} {
		got := stop(c.ctx, reason.Progress{LongestStep: c.longest})
		if (got != nil) != c.parks || got != nil && got.Status != execution.Parked {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSomebodyWhoWaitsParksTheRunAtItsNextStep(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, which := range []string{"own", "outer"} {
			job := w.job(t, echo())
			outer := w.acquire(t, lane.Name("outer:"+job.Execution.ID))
			job.Outer = []*lane.Hold{outer}
			job.Stops = []reason.Stop{reason.Wanted(job.Hold, outer)}
			wanted := map[string]*lane.Hold{"own": job.Hold, "outer": outer}[which]
			want := func(llm.Request) (llm.Response, error) {
				info, err := w.lanes.Peek(t.Context(), w.Workspace, wanted.Lane)
				if err == nil {
					err = w.lanes.Want(t.Context(), w.Workspace, info, "ada")
				}
				resp, _ := llmtest.Call("echo_back", `{"text": "x"}`)(llm.Request{})
				return resp, err
			}
			out := w.run(t, llmtest.Script(t, want), job)
			if out.Status != execution.Parked || out.Steps != 1 || !strings.Contains(out.Reason, "ada waits for lane "+string(wanted.Lane)) {
				t.Errorf("%s lane wanted: %+v", which, out)
			}
			if r := w.results(t, job); len(r) != 1 || r[0].IsError {
				t.Errorf("%s lane wanted: the step was not finished: %+v", which, r)
			}
		}
	})
}

func TestWhatTheModelsErrorMeansForTheRun(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for class, want := range map[llm.ErrorClass]execution.Status{
			llm.ClassRateLimit: execution.Parked, llm.ClassOverloaded: execution.Parked, llm.ClassUnavailable: execution.Parked, llm.ClassTimeout: execution.Parked,
			llm.ClassAuthentication: execution.Parked, llm.ClassBilling: execution.Parked, // the work is not the cause
			llm.ClassBadRequest: execution.Failed, llm.ClassContextTooLong: execution.Failed, llm.ClassRefused: execution.Failed, llm.ClassCanceled: execution.Failed, "": execution.Failed,
		} {
			job := w.job(t, echo())
			var failure error = &llm.Error{Class: class, Provider: "script", Err: errors.New("their secret text")}
			if class == "" {
				failure = errors.New("their secret text")
			}
			m := llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`), llmtest.Fail(failure))
			out := w.run(t, m, job)
			if out.Status != want || out.Halted != (want == execution.Parked) || !strings.Contains(out.Reason, string(class)) || out.Summary != "done so far: echo_back" {
				t.Errorf("%s: %+v", class, out)
			}
			e := w.close(t, job, out)
			flagged := len(w.actions(t, job)) == 2
			if e.Status != want || flagged != (want == execution.Failed) || strings.Contains(e.Error+string(e.Result), "secret") {
				t.Errorf("%s: the execution is %+v", class, e)
			}
			if want == execution.Failed && (e.Error != "failed: "+out.Reason || w.actions(t, job)[1].Status != activity.Error) {
				t.Errorf("%s: the error is %q", class, e.Error)
			}
		}
	})
}

// TestHowTheAnswerEndedIsHowTheRunDoes: an interrupted or declined answer does not complete the
// run.
func TestHowTheAnswerEndedIsHowTheRunDoes(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			stop   llm.StopReason
			text   string
			want   execution.Status
			reason string
		}{
			{llm.StopEndTurn, "done", execution.Completed, ""},
			{llm.StopEndTurn, "", execution.Stalled, "without a word"},
			{"", "", execution.Stalled, "without a word"},
			{llm.StopSequence, "done", execution.Completed, ""},
			{"", "done", execution.Completed, ""}, // from an old journal
			{llm.StopMaxTokens, "It was", execution.Completed, "cut off"},
			{llm.StopMaxTokens, " \n", execution.Stalled, "before it had said anything"},
			{llm.StopRefusal, "", execution.Failed, "declined"},
			{llm.StopRefusal, "I can't help with that.", execution.Failed, "declined"},
			{llm.StopOther, "", execution.Failed, "broke off"},
			{llm.StopOther, "It is so.", execution.Completed, ""}, // some servers have their own stop reasons
		} {
			job := w.job(t, echo())
			last := func(req llm.Request) (llm.Response, error) {
				resp, err := llmtest.Say(c.text)(req)
				resp.StopReason = c.stop
				return resp, err
			}
			out := w.run(t, llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`), last, last), job)
			if out.Status != c.want || (c.reason == "") != (out.Reason == "") || !strings.Contains(out.Reason, c.reason) || out.Answer != c.text {
				t.Errorf("%s, %q: %+v", c.stop, c.text, out)
			}
			if again := w.run(t, llmtest.Script(t), job); again.Status != out.Status || again.Reason != out.Reason {
				t.Errorf("%s, %q: resumed it is %+v", c.stop, c.text, again)
			}
			if flagged := len(w.actions(t, job)); (w.close(t, job, out).Error != "") != (c.want != execution.Completed) || flagged != 1 {
				t.Errorf("%s, %q: %d lines in the log", c.stop, c.text, flagged)
			}
		}
	})
}

func TestTheEndOfTheContextParksTheRun(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, where := range []string{"before", "model", "answered", "skill", "between"} {
			ctx, cancel := context.WithCancel(t.Context())
			end := func(name string) {
				if where == name {
					cancel()
				}
			}
			runs := 0
			stop := does("stop", anything, func(ctx context.Context, _ lane.Tx, _ skill.Call) (any, error) {
				runs++
				end("skill")
				return "fine", ctx.Err()
			})
			job := w.job(t, stop, echo())
			answer := llmtest.Call("echo_back", `{"text": "x"}`, "stop", `{}`)
			model := func(req llm.Request) (llm.Response, error) {
				if where == "model" {
					end("model")
					return llm.Response{}, llm.Interrupted(ctx, "script")
				}
				end("answered")
				return answer(req)
			}
			job.Stops = []reason.Stop{reason.Deadline()}
			job.Spent = func(llm.Usage) { end("between") }
			end("before")
			out, err := w.runner(llmtest.Script(t, model, llmtest.Say("done"))).Run(ctx, job)
			if err != nil || out.Status != execution.Parked || out.Reason != "the time was up" || out.Halted {
				t.Fatalf("%s: %+v, %v", where, out, err)
			}
			if e := w.close(t, job, out); e.Status != execution.Parked {
				t.Errorf("%s: the execution is %+v", where, e)
			}
			before := len(w.journal(t, job))
			steps := []llmtest.Step{answer, llmtest.Say("done")}
			if where == "skill" || where == "answered" || where == "between" { // the answer is recorded
				steps = steps[1:]
			}
			if out := w.run(t, llmtest.Script(t, steps...), job); out.Status != execution.Completed {
				t.Errorf("%s: resumed after %d entries it is %+v", where, before, out)
			}
			if got := w.told(t, job); len(got) != 5 {
				t.Errorf("%s: the journal is %v", where, got)
			}
			if want := map[bool]int{true: 2, false: 1}[where == "skill"]; runs != want {
				t.Errorf("%s: the skill ran %d times", where, runs)
			}
			cancel()
		}
	})
}

func TestALostHoldEndsTheRunAndNothingIsWrittenAfter(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, which := range []string{"own", "outer"} {
			for _, at := range []string{"answer", "call", "refusal", "failure"} {
				var job reason.Job
				over := false
				lose := func() {
					over = true
					lost := map[string]*lane.Hold{"own": job.Hold, "outer": job.Outer[0]}[which]
					err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
						ended, err := w.lanes.ForceRelease(ctx, tx, lost.Lane)
						if !ended {
							t.Errorf("lane %s was not held", lost.Lane)
						}
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
				sorry := does("sorry", anything, func(context.Context, lane.Tx, skill.Call) (any, error) { return nil, skill.Refuse("no") })
				job = w.job(t, echo(), sorry)
				job.Outer = []*lane.Hold{w.acquire(t, lane.Name("outer:"+job.Execution.ID))}
				call := map[string][]string{
					"answer": {}, "call": {"echo_back", `{"text": "x"}`}, "refusal": {"nothing", `{}`}, "failure": {"sorry", `{}`},
				}[at]
				model := func(req llm.Request) (llm.Response, error) {
					if at == "answer" {
						lose()
					}
					return llmtest.Call(append([]string{"echo_back", `{"text": "first"}`}, call...)...)(req)
				}
				runner := w.runner(llmtest.Script(t, model))
				if at != "answer" {
					runner.Clock = func() time.Time { // the loop reads the clock between two calls
						if !over && len(w.results(t, job)) == 1 {
							lose()
						}
						return time.Now()
					}
				}
				out, err := runner.Run(job.Under(t.Context()), job)
				if !errors.Is(err, lane.ErrLost) || out.Status != "" {
					t.Errorf("%s lost at the %s: %+v, %v", which, at, out, err)
				}
				want := map[string]int{"answer": 1, "call": 3, "refusal": 3, "failure": 3}[at]
				if got := w.told(t, job); len(got) != want {
					t.Errorf("%s lost at the %s: the journal is %v", which, at, got)
				}
				actions := map[string]int{"answer": 0, "call": 1, "refusal": 0, "failure": 1}[at]
				if got := len(w.actions(t, job)); got != actions {
					t.Errorf("%s lost at the %s: the log has %d actions", which, at, got)
				}
				err = w.lanes.InHold(t.Context(), lane.Holds{job.Hold, job.Outer[0]}, func(ctx context.Context, tx lane.Tx) error {
					return runner.Close(ctx, tx, job, reason.Outcome{Status: execution.Completed})
				})
				if e, gerr := w.runs.Get(t.Context(), w.Workspace, job.Execution.ID); !errors.Is(err, lane.ErrLost) || gerr != nil || e.Status != execution.Running {
					t.Errorf("%s lost at the %s: closed as %s (%v)", which, at, e.Status, err)
				}
			}
		}
	})
}

func TestAnExpiredHoldEndsTheRun(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		model := func(req llm.Request) (llm.Response, error) {
			w.Skew.Advance(10 * time.Minute) // like a frozen process
			return llmtest.Call("echo_back", `{"text": "x"}`)(req)
		}
		out, err := w.runner(llmtest.Script(t, model)).Run(t.Context(), job)
		if !errors.Is(err, lane.ErrLost) || len(w.journal(t, job)) != 1 {
			t.Errorf("got %+v, %v and %d entries", out, err, len(w.journal(t, job)))
		}
	})
}

func TestTheHoldsLiveAsLongAsTheRun(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		job.Outer = []*lane.Hold{w.acquire(t, lane.Name("outer:"+job.Execution.ID))}
		step := func(req llm.Request) (llm.Response, error) {
			w.Skew.Advance(4 * time.Minute) // of a lease of 5 minutes
			return llmtest.Call("echo_back", `{"text": "x"}`)(req)
		}
		out := w.run(t, llmtest.Script(t, step, step, step, llmtest.Say("done")), job)
		if out.Status != execution.Completed {
			t.Errorf("got %+v", out)
		}
	})
}
