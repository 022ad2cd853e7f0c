package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// progress returns an Act that appends to the journal and then calls act.
func (w *world) progress(t *testing.T, act func(context.Context, reason.Job) (reason.Outcome, error)) func(context.Context, reason.Job) (reason.Outcome, error) {
	return func(ctx context.Context, job reason.Job) (reason.Outcome, error) {
		err := w.Lanes.InHold(ctx, job.Hold, func(_ context.Context, tx lane.Tx) error {
			return w.Runs.Append(tx, job.Execution, execution.Entry{
				Seq: w.acted, Kind: execution.Note, Status: execution.Succeeded, Body: json.RawMessage("{}"),
			})
		})
		if err != nil {
			t.Error(err)
		}
		return act(ctx, job)
	}
}

// do runs the unit several times with the given Act.
func (w *world) do(t *testing.T, times int, act func(context.Context, reason.Job) (reason.Outcome, error)) {
	t.Helper()
	w.act = act
	for n := range times {
		if out, err := w.Do(t.Context(), w.unit()); err != nil && !errors.Is(err, errDied) || out.Poison {
			t.Fatalf("time %d: it is %+v, %v", n+1, out, err)
		}
	}
}

// TestToBeParkedIsNotToBeCutOff checks that work which made progress and was parked continues after
// one interruption, and after four.
func TestToBeParkedIsNotToBeCutOff(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		parks, dies := does(execution.Parked, nil), does("", errDied)
		w.do(t, 5, w.progress(t, parks))
		w.do(t, 1, dies)
		w.is(t, execution.Running, 6)
		w.do(t, 1, w.progress(t, parks))
		w.do(t, 4, dies)
		w.do(t, 1, w.progress(t, does(execution.Waiting, nil)))
		w.do(t, 4, w.progress(t, dies))
		w.do(t, 1, does(execution.Completed, nil))
		w.is(t, execution.Completed, 16)
	})
}

// TestCutsInARowAreGivenUp checks also that neither a park without progress nor progress before
// each interruption prevents it.
func TestCutsInARowAreGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		dies := w.progress(t, does("", errDied))
		w.do(t, 4, dies)
		w.do(t, 1, does(execution.Parked, nil))
		w.do(t, 1, dies)
		if out := w.once(t, w.unit()); !out.Poison || out.Reason != "it was cut off in attempt 6" {
			t.Errorf("it is %+v", out)
		}
		w.is(t, execution.Failed, 6)
	})
}

// TestOnlyParksWithoutProgressAreCounted checks that progress resets the count.
func TestOnlyParksWithoutProgressAreCounted(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		parks := does(execution.Parked, nil)
		w.do(t, 47, parks)
		w.do(t, 1, w.progress(t, parks))
		w.do(t, 48, parks)
		if out := w.once(t, w.unit()); !out.Poison || out.Reason != "it was left for later 48 times without progress" {
			t.Errorf("it is %+v", out)
		}
		w.is(t, execution.Failed, 96)
	})
}

// TestWhatIsHaltedIsNotCounted checks that a halt counts neither as a park nor as an attempt: it
// takes back an attempt that was counted.
func TestWhatIsHaltedIsNotCounted(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		halted := func(context.Context, reason.Job) (reason.Outcome, error) {
			return reason.Outcome{Status: execution.Parked, Reason: "the budget is used up", Halted: true}, nil
		}
		waits := does(execution.Waiting, nil)
		w.do(t, 47, does(execution.Parked, nil))
		w.do(t, 3, halted)
		w.is(t, execution.Parked, 47)
		w.do(t, 1, waits)
		w.is(t, execution.Waiting, 48)
		w.do(t, 1, halted) // it waited, so its resume was not counted
		w.is(t, execution.Parked, 48)
		w.do(t, 1, does(execution.Completed, nil))
		w.is(t, execution.Completed, 49)
	})
}

// TestWhatWasOnlyBegunWasNotCutOff checks that the first resume of a unit that was only begun
// counts no interruption.
func TestWhatWasOnlyBegunWasNotCutOff(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		u := w.unit()
		u.Act = nil
		w.once(t, u)
		w.do(t, 5, does("", errDied))
		w.is(t, execution.Running, 6)
		if out := w.once(t, w.unit()); !out.Poison {
			t.Errorf("it is %+v", out)
		}
	})
}
