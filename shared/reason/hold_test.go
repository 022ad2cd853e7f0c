package reason_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// inVirtualTime runs a test on SQLite with a virtual clock, which is the database's clock too.
func inVirtualTime(t *testing.T, fn func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { fn(t, newWorld(t, dbtest.New(t, dbtest.OnSQLite))) })
}

// TestTheHoldsOutlastALongCall: every hold outlasts each attempt of a call, even if a short
// concurrent call is recorded meanwhile.
func TestTheHoldsOutlastALongCall(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		outer := w.acquire(t, "outer")
		var o outside
		slow := sends("slow", func(ctx context.Context, c skill.Call) (any, error) {
			time.Sleep(14 * time.Minute)
			for _, name := range []lane.Name{c.Subject, outer.Lane} {
				_, err := w.lanes.Acquire(ctx, lane.Request{Workspace: c.Workspace, Lane: name, Holder: "another"})
				if _, busy := errors.AsType[*lane.BusyError](err); !busy {
					t.Errorf("during the call another takes %s: %v", name, err)
				}
			}
			if o.reached(c) < 3 {
				return nil, &skill.UncertainError{Reason: "the connection was cut"}
			}
			return "done", nil
		})
		slow.Timeout, slow.Keyed = 15*time.Minute, true
		quick := sends("quick", func(context.Context, skill.Call) (any, error) { time.Sleep(time.Second); return nil, nil })
		job := w.job(t, slow, quick)
		job.Outer = []*lane.Hold{outer}
		out := w.run(t, llmtest.Script(t, llmtest.Call("slow", `{}`, "quick", `{}`), llmtest.Say("done")), job)
		if out.Status != execution.Completed || len(o.keys) != 3 || w.results(t, job)[0].IsError {
			t.Errorf("after %d tries the run is %+v", len(o.keys), out)
		}
	})
}

// timed is a model that takes almost the allowed time for each answer and records that time.
type timed struct {
	llm.Model
	left []time.Duration
}

func (m *timed) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	deadline, _ := ctx.Deadline()
	m.left = append(m.left, time.Until(deadline))
	time.Sleep(4 * time.Minute)
	return m.Model.Generate(ctx, req, onDelta)
}

// TestASummaryHasItsOwnTime: a summary has the time limit of an answer and does not reduce the
// answer's time. The holds outlast both.
func TestASummaryHasItsOwnTime(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		job := w.job(t, long())
		job.Window = 2000
		tooLong := llmtest.Fail(&llm.Error{Class: llm.ClassContextTooLong, Provider: "script"})
		m := &timed{Model: llmtest.Script(t, reads(700), reads(1600), llmtest.Say("a summary"), reads(10), tooLong, llmtest.Say("a shorter one"), llmtest.Say("done"))}
		if out := w.run(t, m, job); out.Status != execution.Completed || len(m.left) != 7 {
			t.Errorf("after %d calls the run is %+v", len(m.left), out)
		}
		for i, left := range m.left {
			if left != 4*time.Minute+30*time.Second {
				t.Errorf("call %d of the model has %s", i+1, left)
			}
		}
	})
}

// TestWithoutASummaryNothingIsForgotten: if no summary comes, the run continues with the complete
// conversation.
func TestWithoutASummaryNothingIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		refused := func(req llm.Request) (llm.Response, error) {
			resp, err := llmtest.Say("I can't help with that")(req)
			resp.StopReason = llm.StopRefusal
			return resp, err
		}
		for what, summary := range map[string]llmtest.Step{"a blank one": llmtest.Say(" \n"), "a refusal": refused} {
			job := w.job(t, long())
			job.Window = 2000
			var last llm.Request
			m := llmtest.Script(t, reads(700), reads(1600), summary, func(req llm.Request) (llm.Response, error) {
				last = req
				return llmtest.Say("done")(req)
			})
			if out := w.run(t, m, job); out.Status != execution.Completed || len(last.Messages) != 5 || strings.Contains(last.Messages[0].Text, "Summary") {
				t.Errorf("%s: the run is %+v, and went on from %d messages, the first %q", what, out, len(last.Messages), last.Messages[0].Text)
			}
			tooLong := llmtest.Fail(&llm.Error{Class: llm.ClassContextTooLong, Provider: "script"})
			job = w.job(t, long())
			out := w.run(t, llmtest.Script(t, reads(10), reads(10), tooLong, summary, tooLong), job)
			if out.Status != execution.Failed || !strings.Contains(out.Reason, string(llm.ClassContextTooLong)) {
				t.Errorf("%s, and the conversation is too long: the run is %+v", what, out)
			}
		}
	})
}
