package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestATaskIsDone from the coordinator's cycle to its result, and then the one that depends on it, which
// reads that result.
func TestATaskIsDone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.steps(2, 0)
		first := w.create(t, task.Task{Title: "Collect", Input: json.RawMessage(`{"n":1}`)})
		second := w.create(t, task.Task{Title: "Publish", DependsOn: []string{first}})
		for _, id := range []string{first, second} {
			w.cycle(t)
			if is := w.get(t, id); is.Status != task.Running || is.Session == "" {
				t.Fatalf("before: %+v", is)
			}
			ticks := w.next()
			if len(ticks) != 1 || ticks[0].Task != id {
				t.Fatalf("invoked: %+v", ticks)
			}
			r := must(w.Work.Run(t.Context(), ticks[0]))(t)
			if r.Outcome != worker.Ended || r.Attempt != 1 || r.Steps != 3 {
				t.Errorf("%+v", r)
			}
			is := w.get(t, id)
			var out struct{ Answer, ExecutionID string }
			if err := json.Unmarshal(is.Output, &out); err != nil || is.Status != task.Completed || out.Answer != "All is noted." || is.Summary != out.Answer || is.CheckpointVersion != 2 {
				t.Errorf("after: %+v, %s, %v", is, is.Output, err)
			}
			e := must(w.Runs.Get(t.Context(), w.Workspace, out.ExecutionID))(t)
			if e.Status != execution.Completed || e.Surface != trace.Worker || e.Trace != must(w.Tasks.Origin(t.Context(), w.Workspace, id))(t) || e.Agent != "worker" {
				t.Errorf("its execution: %+v", e)
			}
			w.mustBeFree(t, id)
		}
		w.mu.Lock()
		brief := w.asked[len(w.asked)-1].Messages[0].Text
		w.mu.Unlock()
		if !strings.Contains(brief, `"dependsOn":[{"title":"Collect","result":"All is noted."}]`) {
			t.Errorf("the second reads %s", brief)
		}
		w.Skew.Advance(time.Hour)
		w.cycle(t)
		if got := w.next(); len(got) != 0 || len(w.notes()) != 4 {
			t.Errorf("then: invoked %+v, noted %q", got, w.notes())
		}
		if a := must(w.Agents.Get(t.Context(), w.Workspace, w.agentID))(t); a.Status != agent.Idle || a.LastSeenAt == nil {
			t.Errorf("the agent: %+v", a)
		}
	})
}

// TestAStartThatComesTwice, or while another invocation works, does nothing.
func TestAStartThatComesTwice(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.create(t, task.Task{Title: "Once"})
		var inside worker.Report
		w.answers(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			var err error
			inside, err = w.Work.Run(ctx, worker.Tick{Workspace: w.Workspace, Task: id})
			return says("Done."), err
		})
		tick := worker.Tick{Workspace: w.Workspace, Task: id}
		if r := must(w.Work.Run(t.Context(), tick))(t); r.Outcome != worker.Nothing {
			t.Errorf("before it is assigned: %+v", r)
		}
		w.cycle(t)
		if r := must(w.Work.Run(t.Context(), tick))(t); r.Outcome != worker.Ended || inside.Outcome != worker.Busy {
			t.Errorf("%+v, inside %+v", r, inside)
		}
		if r := must(w.Work.Run(t.Context(), tick))(t); r.Outcome != worker.Nothing {
			t.Errorf("after it was done: %+v", r)
		}
		if is := w.get(t, id); is.Status != task.Completed || is.Attempt != 1 {
			t.Errorf("%+v", is)
		}
	})
}

// TestATaskOutlivesItsInvocations: of forty steps, each takes most of an invocation. The history is one,
// and no step comes twice, also where the process dies at a hand-over.
func TestATaskOutlivesItsInvocations(t *testing.T) {
	const many = 12
	onEach(t, func(t *testing.T, w *world) {
		w.steps(many, 40*time.Second)
		id := w.create(t, task.Task{Title: "Long"})
		w.cycle(t)
		w.next()
		last, invocations := 0, 0
		for w.get(t, id).Status == task.Running {
			if invocations++; invocations > 3*many {
				t.Fatalf("after %d invocations: %+v", invocations, w.get(t, id))
			}
			r := w.minute(t, id)
			is := w.get(t, id)
			if r.Outcome == worker.HandedOn && is.CheckpointVersion <= last {
				t.Errorf("handed on with checkpoint %d after %d", is.CheckpointVersion, last)
			}
			last = is.CheckpointVersion
			w.mustBeFree(t, id)
			if r.Outcome == worker.HandedOn && invocations%3 == 0 { // the invocation that was handed to is lost: the row finds out
				w.Skew.Advance(time.Minute)
				w.drain(t)
				if got := w.next(); len(got) != 1 {
					t.Errorf("a lost hand-over: invoked %+v", got)
				}
			}
		}
		is := w.get(t, id)
		if is.Status != task.Completed || is.Attempt != 1 || invocations < many {
			t.Errorf("after %d invocations: %+v", invocations, is)
		}
		notes := w.notes()
		if len(notes) != many || len(slices.Compact(slices.Sorted(slices.Values(notes)))) != many {
			t.Errorf("noted: %q", notes)
		}
		if all := w.executions(t, id); len(all) != 1 || all[0].Attempt != invocations {
			t.Errorf("executions: %+v", all)
		}
	})
}

// minute runs an invocation of a minute on a task.
func (w *world) minute(t testing.TB, id string) worker.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return must(w.Work.Run(ctx, worker.Tick{Workspace: w.Workspace, Task: id}))(t)
}

// TestAHandOverWithoutProgressIsQuarantined: the next invocation would end in the same way.
func TestAHandOverWithoutProgressIsQuarantined(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		asked := 0
		w.answers(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			asked++
			<-ctx.Done()
			return llm.Response{}, ctx.Err()
		})
		id := w.create(t, task.Task{Title: "Too long", MaxRetries: 3})
		w.cycle(t)
		for tries := 0; w.get(t, id).Status == task.Running && tries < 20; tries++ { // a slow machine may not begin in time
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			_, _ = w.Work.Run(ctx, worker.Tick{Workspace: w.Workspace, Task: id})
			cancel()
		}
		// Poison that is cut off five times is quarantined too.
		if is := w.get(t, id); is.Status != task.Failed || !strings.HasPrefix(is.LastError, "quarantined: ") || asked > 2 {
			t.Errorf("asked %d times: %+v", asked, is)
		}
		if len(w.open(t, id)) != 0 {
			t.Errorf("open: %+v", w.open(t, id))
		}
		w.mustBeFree(t, id)
	})
}

// TestAProcessThatEnds parks its task, which is no hand-over, and the row has it go on.
func TestAProcessThatEnds(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.create(t, task.Task{Title: "Cut"})
		ctx, stop := context.WithCancelCause(t.Context())
		w.answers(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			stop(reason.ErrStopped)
			<-ctx.Done()
			return llm.Response{}, ctx.Err()
		})
		w.cycle(t)
		w.next()
		r := must(w.Work.Run(ctx, worker.Tick{Workspace: w.Workspace, Task: id}))(t)
		if is := w.get(t, id); r.Outcome != worker.HandedOn || is.Status != task.Running || len(w.open(t, id)) != 1 {
			t.Errorf("%+v, %+v", r, is)
		}
		w.steps(1, 0)
		w.drain(t)
		w.run(t)
		if is := w.get(t, id); is.Status != task.Completed || is.Attempt != 1 || len(w.notes()) != 1 {
			t.Errorf("%+v, noted %q", is, w.notes())
		}
	})
}

// TestOrders: a task that is paused or cancelled stops in the middle of a step. A paused one continues
// after its last step, in the same execution.
func TestOrders(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Work.BeatEvery = 10 * time.Millisecond
		for _, order := range []string{"pause", "cancel", "terminate"} {
			w.mu.Lock()
			w.noted = nil
			w.mu.Unlock()
			id := w.create(t, task.Task{Title: order, MaxRetries: 3})
			tick := worker.Tick{Workspace: w.Workspace, Task: id}
			w.answers(func(ctx context.Context, r llm.Request) (llm.Response, error) {
				if results(r) == 0 {
					return says("", llm.ToolCall{ID: "a", Name: "note", Arguments: `{"text":"a"}`}), nil
				}
				err := w.Env.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
					switch order {
					case "pause":
						_, err = w.Tasks.Pause(ctx, tx, id, "user:ada", "", "for a while")
					case "cancel":
						_, err = w.Tasks.Cancel(ctx, tx, id, "user:ada", "never mind")
					default:
						_, _, err = w.Agents.Terminate(ctx, tx, w.agentID, "no more", false)
					}
					return err
				})
				if err != nil {
					return llm.Response{}, err
				}
				<-ctx.Done()
				return llm.Response{}, ctx.Err()
			})
			w.cycle(t)
			r := must(w.Work.Run(t.Context(), tick))(t)
			if r.Outcome != worker.Stopped {
				t.Errorf("%s: %+v", order, r)
			}
			w.mustBeFree(t, id)
			w.next()
			switch order {
			case "cancel":
				if all := w.executions(t, id); len(all) != 1 || all[0].Status != execution.Cancelled {
					t.Errorf("cancelled: %+v", all)
				}
			case "pause":
				if open := w.open(t, id); len(open) != 1 || open[0].Status != execution.Parked {
					t.Errorf("paused: %+v", open)
				}
				w.tx(t, func(ctx context.Context, tx *db.Tx) error {
					pending := task.Pending
					_, err := w.Tasks.Patch(ctx, tx, id, "user:ada", func(task.Task) error { return nil }, task.Patch{Status: &pending})
					return err
				})
				w.steps(2, 0)
				w.cycle(t)
				w.run(t)
				if is := w.get(t, id); is.Status != task.Completed || is.Attempt != 2 || len(w.notes()) != 2 || len(w.executions(t, id)) != 1 {
					t.Errorf("resumed: %+v, noted %q", is, w.notes())
				}
			}
		}
	})
}

// TestACallThatWaitsForAPerson keeps the task, and the decision has it go on.
func TestACallThatWaitsForAPerson(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.answers(func(_ context.Context, r llm.Request) (llm.Response, error) {
			if results(r) == 0 {
				return says("", llm.ToolCall{ID: "a", Name: "pay", Arguments: `{"text":"a"}`}), nil
			}
			return says(fmt.Sprintf("There are %d messages.", len(r.Messages))), nil
		})
		id := w.create(t, task.Task{Title: "Pay"})
		tick := worker.Tick{Workspace: w.Workspace, Task: id}
		w.cycle(t)
		w.next()
		if r := must(w.Work.Run(t.Context(), tick))(t); r.Outcome != worker.Waits || w.get(t, id).CurrentStep != "waits for a person's approval" {
			t.Errorf("%+v, %+v", r, w.get(t, id))
		}
		w.Skew.Advance(time.Hour)
		w.cycle(t)
		if got := w.next(); len(got) != 0 || w.get(t, id).Status != task.Running {
			t.Errorf("while nobody has decided: invoked %+v, %+v", got, w.get(t, id))
		}
		open := w.open(t, id)
		var result struct{ Waits []string }
		if err := json.Unmarshal(open[0].Result, &result); err != nil || len(result.Waits) != 1 {
			t.Fatalf("%s, %v", open[0].Result, err)
		}
		must(w.Approvals.Reject(t.Context(), w.Workspace, result.Waits[0], "user:ada", "too dear"))(t)
		w.drain(t)
		w.run(t)
		if is := w.get(t, id); is.Status != task.Completed || w.paid != 0 || is.Summary != "There are 5 messages." {
			t.Errorf("%+v, paid %d times", is, w.paid)
		}
	})
}

// TestATaskThatCannotBeDone: an answer that begins with FAILED: fails the task for good, and what depends on it.
func TestATaskThatCannotBeDone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.answers(func(context.Context, llm.Request) (llm.Response, error) {
			return says("\nFAILED: A person rejected the refund."), nil
		})
		id := w.create(t, task.Task{Title: "Refund", MaxRetries: 3})
		after := w.create(t, task.Task{Title: "Tell the customer", DependsOn: []string{id}})
		w.cycle(t)
		w.next()
		must(w.Work.Run(t.Context(), worker.Tick{Workspace: w.Workspace, Task: id}))(t)
		if is := w.get(t, id); is.Status != task.Failed || is.LastError != "A person rejected the refund." {
			t.Errorf("%+v", is)
		}
		w.cycle(t)
		if is := w.get(t, after); is.Status != task.Failed {
			t.Errorf("what depends on it: %+v", is)
		}
	})
}

// TestTheBuiltinWorkerIsNotStale while it holds its task, however long its step is. When its hold has
// ended and nobody goes on, the attempt is lost, and the next one goes on in the same execution.
func TestTheBuiltinWorkerIsNotStale(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.create(t, task.Task{Title: "Slow", MaxRetries: 3})
		tick := worker.Tick{Workspace: w.Workspace, Task: id}
		ctx, cut := context.WithCancel(t.Context())
		w.answers(func(_ context.Context, r llm.Request) (llm.Response, error) {
			if results(r) == 0 {
				return says("", llm.ToolCall{ID: "a", Name: "note", Arguments: `{"text":"a"}`}), nil
			}
			for range 4 { // three and a half minutes, in cycles that follow each other
				w.Skew.Advance(50 * time.Second)
				w.cycle(t)
			}
			if is, a := w.get(t, id), must(w.Agents.Get(t.Context(), w.Workspace, w.agentID))(t); is.Status != task.Running ||
				a.Status != agent.Working || a.PresentHealth() != agent.IsHealthy {
				t.Errorf("while it works: %+v, %+v, %s", is, a, a.PresentHealth())
			}
			for range 8 { // its process is frozen: its hold ends
				w.Skew.Advance(80 * time.Second)
				must(w.Cycles.Cycle(t.Context(), w.Workspace, "test"))(t)
			}
			cut()
			return llm.Response{}, ctx.Err()
		})
		w.cycle(t)
		if r, err := w.Work.Run(ctx, tick); err == nil {
			t.Errorf("%+v", r)
		}
		is := w.get(t, id)
		if is.Status == task.Running && is.Attempt == 1 {
			t.Errorf("after its hold has ended: %+v", is)
		}
		w.steps(2, 0)
		for range 5 {
			w.Skew.Advance(80 * time.Second)
			w.cycle(t)
			w.run(t)
		}
		if is := w.get(t, id); is.Status != task.Completed || is.Attempt < 2 || len(w.notes()) != 2 || len(w.executions(t, id)) != 1 {
			t.Errorf("at last: %+v, noted %q, %+v", is, w.notes(), w.executions(t, id))
		}
	})
}
