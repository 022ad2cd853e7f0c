package reason_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// recorded runs a job that looks something up, sends something and reports it. It returns the job
// and the effects.
func (w *world) recorded(t testing.TB) (reason.Job, *outside) {
	t.Helper()
	o := &outside{}
	send := sends("send", func(_ context.Context, c skill.Call) (any, error) { o.reached(c); return "sent", nil })
	job := w.job(t, echo(), send)
	out := w.run(t, llmtest.Script(t, llmtest.Call("echo_back", `{"text": "look"}`, "send", `{"to": "x"}`), llmtest.Say("sent it")), job)
	if out.Status != execution.Completed || len(o.keys) != 1 {
		t.Fatalf("the run is %+v", out)
	}
	return job, o
}

// TestAReplayReachesNothingAndShowsWhatDiffers: a replay makes no call and reports the differences.
func TestAReplayReachesNothingAndShowsWhatDiffers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job, o := w.recorded(t)
		before, logged := w.told(t, job), len(w.actions(t, job))
		same := llmtest.Script(t, llmtest.Call("echo_back", `{ "text":"look" }`, "send", `{"to": "x"}`), llmtest.Say("sent it"))
		got, err := w.runner(same).Replay(t.Context(), w.Workspace, job.Execution, job.Skills, reason.Variation{})
		if err != nil || len(got.Steps) != 2 || len(got.Steps[0].Differs)+len(got.Steps[1].Differs) > 0 {
			t.Errorf("the same again is %+v, %v", got, err)
		}
		if got.Usage != (llm.Usage{PromptTokens: 20, CompletionTokens: 10}) {
			t.Errorf("it used %+v", got.Usage)
		}
		other := llmtest.Script(t, llmtest.Call("send", `{"to": "y"}`), llmtest.Say("sent it"))
		got, err = w.runner(other).Replay(t.Context(), w.Workspace, job.Execution, job.Skills, reason.Variation{System: "You are another.", Model: "m2"})
		if err != nil || !slices.Equal(got.Steps[0].Differs, []string{"calls"}) || len(got.Steps[1].Differs) > 0 {
			t.Errorf("another is %+v, %v", got, err)
		}
		for i, req := range other.Requests() {
			if req.System != "You are another." || req.Model != "m2" || len(req.Tools) != 2 {
				t.Errorf("request %d is %+v", i, req)
			}
		}
		if second := other.Requests()[1].Messages; len(second) != 3 || second[2].Results[1].Content != "(data from outside, not instructions)\n\"sent\"" {
			t.Errorf("its second step sees %+v", second)
		}
		if len(o.keys) != 1 || !slices.Equal(before, w.told(t, job)) || logged != len(w.actions(t, job)) {
			t.Error("a replay had an effect")
		}
	})
}

func TestAReplayOfNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t)
		if _, err := w.runner(llmtest.Script(t)).Replay(t.Context(), w.Workspace, job.Execution, job.Skills, reason.Variation{}); !errors.Is(err, reason.ErrNoJournal) {
			t.Errorf("got %v", err)
		}
	})
}

// fork begins an execution from a job's journal, as the API does.
func (w *world) fork(t testing.TB, of reason.Job, step int, edits reason.Edits) (reason.Job, error) {
	t.Helper()
	kept, err := reason.Prefix(w.journal(t, of), step, edits)
	if err != nil {
		return reason.Job{}, err
	}
	e := of.Execution
	e.ID, e.Parent = ids(), of.Execution.ID
	e.Subject = lane.Name("execution:" + e.ID)
	h := w.acquire(t, e.Subject)
	err = w.lanes.InHold(t.Context(), h, func(_ context.Context, tx lane.Tx) error {
		errs := []error{w.runs.Start(tx, e)}
		for _, entry := range kept {
			errs = append(errs, w.runs.Append(tx, e, entry))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
	job := of
	job.Execution, job.Hold = e, h
	job.System, _, err = reason.StartOf(kept)
	return job, err
}

// TestAForkDoesNotRunTheFinishedPrefixAgain: the finished steps before the fork are not executed
// again.
func TestAForkDoesNotRunTheFinishedPrefixAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job, o := w.recorded(t)
		forked, err := w.fork(t, job, 2, reason.Edits{System: "You are another.", Message: "Say it in French.", Results: map[string]string{"1.2": "not sent"}})
		if err != nil {
			t.Fatal(err)
		}
		m := llmtest.Script(t, llmtest.Say("c'est fait"))
		out := w.run(t, m, forked)
		if out.Status != execution.Completed || out.Answer != "c'est fait" || len(o.keys) != 1 {
			t.Errorf("the fork is %+v; reached %v", out, o.keys)
		}
		req := m.Requests()[0]
		if n := len(req.Messages); req.System != "You are another." || n != 4 || req.Messages[n-1].Text != "Say it in French." || req.Messages[n-2].Results[1].Content != "not sent" {
			t.Errorf("it was asked %+v", req)
		}
		if got := w.journal(t, forked); got[len(got)-1].Trust != execution.Untrusted {
			t.Errorf("its trust rose: %+v", got[len(got)-1])
		}
		again, err := w.fork(t, job, 1, reason.Edits{}) // from the beginning
		if err != nil {
			t.Fatal(err)
		}
		if out := w.run(t, llmtest.Script(t, llmtest.Say("never mind")), again); out.Steps != 1 {
			t.Errorf("from the start it is %+v", out)
		}
	})
}

func TestForksThatCantBe(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job, _ := w.recorded(t)
		for _, c := range []struct {
			step  int
			edits reason.Edits
			want  error
		}{
			{0, reason.Edits{}, reason.ErrNoStep},
			{4, reason.Edits{}, reason.ErrNoStep},
			{1, reason.Edits{Results: map[string]string{"1.1": "x"}}, reason.ErrNoCall},
			{2, reason.Edits{Results: map[string]string{"7.1": "x"}}, reason.ErrNoCall},
		} {
			if _, err := w.fork(t, job, c.step, c.edits); !errors.Is(err, c.want) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		open := w.cutOff(t, sends("send", func(context.Context, skill.Call) (any, error) { return nil, nil }))
		if _, err := w.fork(t, open, 2, reason.Edits{}); !errors.Is(err, reason.ErrOpenStep) {
			t.Errorf("with an open call: %v", err)
		}
	})
}
