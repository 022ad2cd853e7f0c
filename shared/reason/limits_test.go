package reason_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// till is a meter on which each call costs 1,000 micro-dollars. It can fail.
type till struct {
	reserved []reason.Cost
	settled  int             // number of settled calls
	used     llm.Usage       // usage of these calls
	hangs    bool            // each settle lasts until its context ends
	released int             // number of released reservations
	breaks   int             // how many of the next settles fail
	spent    error           // error of Reserve
	limits   []time.Duration // time limits of the settles
}

// limitOf returns the remaining time of a context in whole seconds. It is negative without a
// deadline.
func limitOf(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return -1
	}
	return time.Until(end).Round(time.Second)
}

var errTill = errors.New("the till is stuck")

func (m *till) Reserve(_ context.Context, c reason.Cost) (int, reason.Settle, error) {
	if m.spent != nil {
		return 0, nil, m.spent
	}
	m.reserved = append(m.reserved, c)
	return c.Output / 2, func(ctx context.Context, used *llm.Response, _ []string) (int64, error) {
		m.limits = append(m.limits, limitOf(ctx))
		switch {
		case m.hangs:
			<-ctx.Done()
			return 1000, ctx.Err()
		case used == nil:
			m.released++
			return 0, nil
		case m.breaks > 0:
			m.breaks--
			return 1000, errTill
		}
		m.settled++
		m.used = m.used.Plus(used.Used())
		return 1000, nil
	}, nil
}

// off lists the agents, models and skills ("skill:pay") that are switched off.
type off []string

func (o off) Run(agent string, models ...string) string {
	if slices.ContainsFunc(append(models, agent), func(name string) bool { return slices.Contains(o, name) }) {
		return "it is switched off"
	}
	return ""
}

func (o off) Skill(name string) string { return o.Run("skill:" + name) }

func switches(names ...string) func(context.Context, db.Workspace) (reason.Halts, error) {
	return func(context.Context, db.Workspace) (reason.Halts, error) { return off(names), nil }
}

func TestACallIsReservedByTheModelsID(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m, job := &till{}, w.job(t, echo())
		var told llm.Usage
		job.Spent = func(u llm.Usage) { told = told.Plus(u) }
		r := w.runner(llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`), llmtest.Say("done")))
		r.Meter, r.ModelID = m, "big-1"
		out, err := r.Run(job.Under(t.Context()), job)
		if err != nil || out.Status != execution.Completed || m.settled != 2 || len(m.reserved) != 2 {
			t.Fatalf("it is %+v, %v; the till %+v", out, err, m)
		}
		if c := m.reserved[0]; c.Model != "big-1" || c.Output != 100 || c.Agent != job.Agent || c.Execution != job.Execution.ID {
			t.Errorf("reserved was %+v", c)
		}
		if e := w.close(t, job, out); e.CostUSD != 0.002 || told.MicroUSD != 2000 || out.Usage.MicroUSD != 2000 {
			t.Errorf("told of %d and %d micro-dollars, the execution is %+v", told.MicroUSD, out.Usage.MicroUSD, e)
		}
	})
}

func TestAModelIsSwitchedOffByEachOfItsNames(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, name := range []string{"big-1", "script"} {
			job, r := w.job(t), w.runner(llmtest.Script(t))
			r.ModelID, r.Switches = "big-1", switches(name)
			if out, err := r.Run(job.Under(t.Context()), job); err != nil || out.Status != execution.Parked || !out.Halted || out.Reason != "it is switched off" {
				t.Errorf("%s: %+v, %v", name, out, err)
			}
		}
	})
}

// TestAnAnswerThatCannotBeCountedIsKept: an answer whose usage cannot be settled is kept, because
// it is paid for. The usage is settled before the next call.
func TestAnAnswerThatCannotBeCountedIsKept(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for breaks, want := range map[int]struct {
			status         execution.Status
			settled, steps int
		}{1: {execution.Completed, 2, 2}, 2: {execution.Completed, 2, 2}, 9: {execution.Parked, 0, 1}} {
			m, job := &till{breaks: breaks}, w.job(t, echo())
			r := w.runner(llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`), llmtest.Say("done")))
			r.Meter = m
			out, err := r.Run(job.Under(t.Context()), job)
			if err != nil || out.Status != want.status || m.settled != want.settled || out.Steps != want.steps {
				t.Errorf("after %d failures it is %+v, %v; counted were %d", breaks, out, err, m.settled)
			}
			if e := w.close(t, job, out); e.PromptTokens != int64(10*want.steps) || e.CostUSD != 0.001*float64(want.steps) {
				t.Errorf("the execution is %+v", e)
			}
		}
	})
}

func TestAReplayIsLimitedAsARunIs(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job, _ := w.recorded(t)
		replay := func(m *llmtest.Model, change func(*reason.Runner), v reason.Variation) (reason.Replayed, error) {
			r := w.runner(m)
			r.ModelID = "big-1"
			change(r)
			return r.Replay(t.Context(), w.Workspace, job.Execution, job.Skills, v)
		}
		for _, name := range []string{"big-1", "script", job.Agent} {
			_, err := replay(llmtest.Script(t), func(r *reason.Runner) { r.Switches = switches(name) }, reason.Variation{})
			if halted, ok := errors.AsType[*reason.HaltedError](err); !ok || halted.Why != "it is switched off" {
				t.Errorf("with %s switched off: %v", name, err)
			}
		}
		if _, err := replay(llmtest.Script(t), func(r *reason.Runner) { r.Switches = switches("big-2") }, reason.Variation{Model: "big-2"}); err == nil {
			t.Error("a model that is switched off was asked by its name")
		}
		_, err := replay(llmtest.Script(t), func(r *reason.Runner) { r.Meter = &till{spent: &reason.SpentError{Why: "all gone"}} }, reason.Variation{})
		if spent, ok := errors.AsType[*reason.SpentError](err); !ok || spent.Why != "all gone" {
			t.Errorf("without a budget: %v", err)
		}

		m := &till{}
		failing := llmtest.Script(t, llmtest.Say("one"), llmtest.Fail(&llm.Error{Class: llm.ClassOverloaded}))
		got, err := replay(failing, func(r *reason.Runner) { r.Meter, r.Switches = m, switches("big-1") }, reason.Variation{Model: "big-2"})
		if llm.ClassOf(err) != llm.ClassOverloaded || len(got.Steps) != 1 || got.Usage.TotalTokens() != 15 || got.Usage.MicroUSD != 1000 {
			t.Errorf("half of it is %+v, %v", got, err)
		}
		if m.settled != 1 || m.released != 1 || m.reserved[0].Model != "big-2" || m.reserved[0].Surface != trace.Operate || m.reserved[0].Execution != job.Execution.ID {
			t.Errorf("the till is %+v", m)
		}
		if req := failing.Requests()[0]; req.MaxTokens != 2048 {
			t.Errorf("it was asked for %d tokens", req.MaxTokens)
		}
		m = &till{breaks: 2} // after the first answer and before the second one
		_, err = replay(llmtest.Script(t, llmtest.Say("one")), func(r *reason.Runner) { r.Meter = m }, reason.Variation{})
		if !errors.Is(err, errTill) || m.settled != 1 {
			t.Errorf("of an answer that could not be counted at once %d are counted at the end (%v)", m.settled, err)
		}
	})
}

// cut is a model whose answers are cut off.
type cut struct{ llm.Model }

func (cut) Generate(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
	return llm.Response{Lost: llm.Usage{PromptTokens: 10, CompletionTokens: 5, Estimated: true}}, &llm.Error{Class: llm.ClassTimeout, Provider: "script"}
}

// TestWhatWasCutOffIsPaidFor: the usage of a cut-off answer is counted as far as it is known.
func TestWhatWasCutOffIsPaidFor(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m, job := &till{}, w.job(t, echo())
		r := w.runner(llmtest.Script(t))
		r.Model, r.Meter = cut{r.Model}, m
		if out, err := r.Run(job.Under(t.Context()), job); err != nil || out.Status != execution.Parked || m.settled != 1 || m.released != 0 {
			t.Errorf("%+v, %v; settled %d, released %d", out, err, m.settled, m.released)
		}
	})
}

// A settle outlives its run by a few seconds at most, even if the database does not respond.
func TestASettleEnds(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m, job := &till{breaks: 1}, w.job(t, echo())
		r := w.runner(llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`), llmtest.Say("done")))
		r.Meter = m
		if _, err := r.Run(job.Under(t.Context()), job); err != nil || len(m.limits) != 3 {
			t.Fatalf("it settled %d times, %v", len(m.limits), err)
		}
		for _, limit := range m.limits {
			if limit <= 0 || limit > 5*time.Second {
				t.Errorf("a settle may take %s", limit)
			}
		}
	})
}

// lossy is a model that is interrupted a few times before each answer and before it fails.
type lossy struct{ llm.Model }

var lost = llm.Usage{PromptTokens: 6000, CompletionTokens: 7, Estimated: true}

func (m lossy) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	resp, err := m.Model.Generate(ctx, req, onDelta)
	resp.Lost = lost
	return resp, err
}

// TestWhatBrokeOffIsCountedOnce: the usage of interrupted tries is counted once in budgets, caps,
// the log and the execution. It does not make the conversation longer.
func TestWhatBrokeOffIsCountedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m, job := &till{}, w.job(t, echo())
		job.Window = 8192
		var told llm.Usage
		job.Spent = func(u llm.Usage) { told = told.Plus(u) }
		r := w.runner(lossy{llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`),
			llmtest.Fail(&llm.Error{Class: llm.ClassOverloaded}), llmtest.Say("done"))})
		r.Meter = m
		want, answer := llm.Usage{}, llm.Usage{PromptTokens: 10, CompletionTokens: 5}
		counted := func(status execution.Status) {
			t.Helper()
			out, err := r.Run(job.Under(t.Context()), job)
			if err != nil || out.Status != status || !out.Usage.Estimated {
				t.Fatalf("it is %+v, %v", out, err)
			}
			e, sum := w.close(t, job, out), llm.Usage{}
			page, err := w.log.List(t.Context(), w.Workspace, activity.Filter{Trace: job.Execution.Trace, Skill: activity.ModelCall, Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range page.Items {
				sum = sum.Plus(llm.Usage{PromptTokens: int(line.Usage.PromptTokens), CompletionTokens: int(line.Usage.CompletionTokens)})
				if !strings.Contains(string(line.Output), `"estimated"`) {
					t.Errorf("the log says %s", line.Output)
				}
			}
			for name, got := range map[string]llm.Usage{
				"budgets": m.used, "caps": told, "log": sum,
				"execution": {PromptTokens: int(e.PromptTokens), CompletionTokens: int(e.CompletionTokens)},
			} {
				if got.PromptTokens != want.PromptTokens || got.CompletionTokens != want.CompletionTokens {
					t.Errorf("%s: %+v, want %+v", name, got, want)
				}
			}
			if e.CostUSD != float64(m.settled)/1000 || told.MicroUSD != int64(m.settled)*1000 {
				t.Errorf("it costs %f, caps have %d, %d calls are settled", e.CostUSD, told.MicroUSD, m.settled)
			}
		}
		want = answer.Plus(lost).Plus(lost)
		counted(execution.Parked)
		err := w.lanes.InHold(t.Context(), job.Hold, func(ctx context.Context, tx lane.Tx) error { return w.runs.Resume(ctx, tx, &job.Execution) })
		if err != nil {
			t.Fatal(err)
		}
		want = want.Plus(answer).Plus(lost)
		counted(execution.Completed)
	})
}

// TestAnEndHasOneLimit: however often settling is retried, a run does not outlive its context for
// long.
func TestAnEndHasOneLimit(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	ctx, cancel := context.WithCancel(t.Context())
	m, job := &till{hangs: true}, w.job(t, echo())
	var ended time.Time
	r := w.runner(llmtest.Script(t, func(req llm.Request) (llm.Response, error) {
		ended = time.Now()
		cancel()
		return llmtest.Say("done")(req)
	}))
	r.Meter = m
	_, err := r.Run(job.Under(ctx), job)
	if took := time.Since(ended); err != nil || len(m.limits) < 2 || took > 9*time.Second { // 11 s with separate limits
		t.Errorf("it ended after %s and %d settles, %v", took, len(m.limits), err)
	}
}

// TestAReservationThatTheNetworkHasLostIsNoEnd: a lost reservation may succeed at the next attempt,
// so the run does not count as failed.
func TestAReservationThatTheNetworkHasLostIsNoEnd(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	for err, halted := range map[error]bool{db.ErrUncertain: false, db.ErrUnavailable: false, errTill: true} {
		job, r := w.job(t), w.runner(llmtest.Script(t))
		r.Meter = &till{spent: fmt.Errorf("reserve budget: %w", err)}
		if out, failed := r.Run(job.Under(t.Context()), job); failed != nil || out.Status != execution.Parked || out.Halted != halted {
			t.Errorf("%v: %+v, %v", err, out, failed)
		}
	}
}
