package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

var statuses = []execution.Status{execution.Running, execution.Waiting, execution.Parked, execution.Completed, execution.Failed, execution.Cancelled, execution.Stalled}

const subject lane.Name = "objective:1"

func TestAnExecutionIsReadBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		parent := newExecution("heartbeat")
		w.start(t, w.hold(t, "heartbeat"), parent)
		e := newExecution(subject)
		e.Parent, e.Slot, e.Input = parent.ID, "heartbeat:x:2026-11-20T10:30Z", json.RawMessage(`{"a": "ü"}`)
		w.start(t, h, e)
		w.must(t, h, func(_ context.Context, tx lane.Tx) error { return w.runs.Spend(tx, e, 10, 5, 0.25) })
		w.must(t, h, func(_ context.Context, tx lane.Tx) error {
			return errors.Join(w.runs.Spend(tx, e, 1<<40, 1, 0.000001),
				w.runs.Leave(tx, e, execution.Stalled, json.RawMessage(`{"answer": "no"}`), "stalled: x"))
		})
		got := w.get(t, e.ID)
		if got.EndedAt == nil || got.EndedAt.Before(got.CreatedAt) || got.UpdatedAt.Before(got.CreatedAt) || time.Since(got.CreatedAt).Abs() > time.Minute {
			t.Errorf("created %s, updated %s, ended %v", got.CreatedAt, got.UpdatedAt, got.EndedAt)
		}
		want := e
		want.Status, want.Error, want.PromptTokens, want.CompletionTokens, want.CostUSD = execution.Stalled, "stalled: x", 10+1<<40, 6, 0.250001
		want.Result = json.RawMessage(`{"answer": "no"}`)
		got.CreatedAt, got.UpdatedAt, got.EndedAt = want.CreatedAt, want.UpdatedAt, want.EndedAt
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestARecordIsReadBack: what began with its lane and completes at once is one row.
func TestARecordIsReadBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		e := newExecution(lane.Heartbeat)
		e.Slot = "heartbeat:x:2026-11-20T10:30Z"
		h := w.hold(t, lane.Heartbeat)
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.HeldFor, lane.Heartbeat, 5000); err != nil {
			t.Fatal(err)
		}
		w.must(t, h, func(_ context.Context, tx lane.Tx) error {
			return w.runs.Record(tx, e, json.RawMessage(`{"outcome": "idle"}`))
		})
		got := w.get(t, e.ID)
		lasted := got.EndedAt != nil && got.EndedAt.Sub(got.CreatedAt) >= 5*time.Second && got.UpdatedAt.Equal(*got.EndedAt)
		if !lasted || time.Since(got.CreatedAt).Abs() > time.Minute {
			t.Errorf("created %s, updated %s, ended %v", got.CreatedAt, got.UpdatedAt, got.EndedAt)
		}
		want := e
		want.Status, want.Input, want.Result = execution.Completed, json.RawMessage("{}"), got.Result
		want.CreatedAt, want.UpdatedAt, want.EndedAt = got.CreatedAt, got.UpdatedAt, got.EndedAt
		if diff := cmp.Diff(want, got); diff != "" || string(got.Result) != `{"outcome": "idle"}` {
			t.Errorf("result %s\n%s", got.Result, diff)
		}
		err := w.try(t, w.hold(t, subject), func(_ context.Context, tx lane.Tx) error { return w.runs.Record(tx, e, nil) })
		if err == nil {
			t.Error("it is recorded under the hold of another lane")
		}
	})
}

// TestAReasonMayBeAnyBytes: what failed may say what no database stores.
func TestAReasonMayBeAnyBytes(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		w.must(t, h, func(_ context.Context, tx lane.Tx) error {
			return w.runs.Leave(tx, e, execution.Failed, nil, "a\x00b\xff")
		})
		if got := w.get(t, e.ID); got.Status != execution.Failed || got.Error != "a\uFFFDb\uFFFD" {
			t.Errorf("it is %s: %q", got.Status, got.Error)
		}
	})
}

func TestInputIsAnObjectWhenThereIsNone(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		e := w.start(t, w.hold(t, subject), newExecution(subject))
		if got := w.get(t, e.ID); string(got.Input) != "{}" || got.Result != nil || got.Status != execution.Running || got.EndedAt != nil {
			t.Errorf("got %+v", got)
		}
	})
}

func TestTheTableKnowsEveryStatus(t *testing.T) {
	for _, s := range statuses {
		ended := s == execution.Completed || s == execution.Failed || s == execution.Cancelled || s == execution.Stalled
		if s.Ended() != ended {
			t.Errorf("%s: ended is %v", s, s.Ended())
		}
		for _, next := range statuses {
			if ended && s.Can(next) {
				t.Errorf("%s goes to %s", s, next)
			}
		}
		if !ended && !s.Can(execution.Running) {
			t.Errorf("%s can't be taken up", s)
		}
	}
	if execution.Status("lost").Can(execution.Running) || !execution.Status("lost").Ended() {
		t.Error("an unknown status goes somewhere")
	}
}

// TestTheDatabaseFollowsTheTable walks every pair of statuses.
func TestTheDatabaseFollowsTheTable(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		for _, from := range statuses {
			for _, to := range statuses {
				e := w.start(t, h, newExecution(subject))
				w.become(t, e.ID, from)
				before := w.get(t, e.ID)
				err := w.try(t, h, func(ctx context.Context, tx lane.Tx) error {
					if to == execution.Running {
						return w.runs.Resume(ctx, tx, &e)
					}
					return w.runs.Leave(tx, e, to, json.RawMessage(`{"left": true}`), "why")
				})
				got := w.get(t, e.ID)
				switch {
				case from.Can(to):
					if err != nil || got.Status != to {
						t.Errorf("%s to %s: it is %s (%v)", from, to, got.Status, err)
					}
					if (got.EndedAt != nil) != to.Ended() {
						t.Errorf("%s to %s: ended at %v", from, to, got.EndedAt)
					}
				case to == execution.Running:
					if !errors.Is(err, db.ErrNoRows) {
						t.Errorf("resuming one that is %s: %v", from, err)
					}
					fallthrough
				default:
					if diff := cmp.Diff(before, got); diff != "" {
						t.Errorf("%s to %s changed it: %s", from, to, diff)
					}
				}
				if !got.Status.Ended() {
					w.become(t, e.ID, execution.Cancelled)
				}
			}
		}
	})
}

func TestNobodyLeavesAnExecutionRunning(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		for _, status := range []execution.Status{execution.Running, "", "lost"} {
			err := w.try(t, h, func(_ context.Context, tx lane.Tx) error { return w.runs.Leave(tx, e, status, nil, "") })
			if err == nil || w.get(t, e.ID).Status != execution.Running {
				t.Errorf("left %q: %v", status, err)
			}
		}
	})
}

func TestResumingCountsTheAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		for want := 2; want <= 4; want++ {
			w.must(t, h, func(ctx context.Context, tx lane.Tx) error { return w.runs.Resume(ctx, tx, &e) })
			if got := w.get(t, e.ID); e.Attempt != want || got.Attempt != want || e.Status != execution.Running {
				t.Errorf("attempt %d is %d, stored %d", want, e.Attempt, got.Attempt)
			}
		}
	})
}

func TestASubjectHasOneUnfinishedExecution(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		first := w.start(t, h, newExecution(subject))
		second := newExecution(subject)
		for _, status := range []execution.Status{execution.Running, execution.Waiting, execution.Parked} {
			w.become(t, first.ID, status)
			err := w.try(t, h, func(_ context.Context, tx lane.Tx) error { return w.runs.Start(tx, second) })
			if !errors.Is(err, db.ErrUnique) {
				t.Errorf("beside one that is %s: %v", status, err)
			}
			if got := w.unfinished(t, subject); len(got) != 1 || got[0].ID != first.ID || got[0].Status != status {
				t.Errorf("unfinished are %+v", got)
			}
		}
		w.must(t, h, func(_ context.Context, tx lane.Tx) error { // one transaction ends the one and starts the next
			return errors.Join(w.runs.Leave(tx, first, execution.Failed, nil, "x"), w.runs.Start(tx, second))
		})
		if got := w.unfinished(t, subject); len(got) != 1 || got[0].ID != second.ID {
			t.Errorf("unfinished are %+v", got)
		}
		if got := w.unfinished(t, "objective:2"); len(got) != 0 {
			t.Errorf("another subject has %+v", got)
		}
		there := w.neighbour(t)
		there.start(t, there.hold(t, subject), newExecution(subject)) // a subject belongs to a workspace
	})
}

func TestASlotHasOneExecution(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		inSlot := func(slot string) execution.Execution {
			e := newExecution(subject)
			e.Slot = slot
			return e
		}
		first := w.start(t, h, inSlot("heartbeat:x:2026-11-20T10:30Z"))
		w.become(t, first.ID, execution.Completed)
		err := w.try(t, h, func(_ context.Context, tx lane.Tx) error { return w.runs.Start(tx, inSlot(first.Slot)) })
		if !errors.Is(err, db.ErrUnique) {
			t.Errorf("the same slot again: %v", err)
		}
		other := inSlot(first.Slot)
		other.Surface = trace.Coordinator // a slot belongs to a surface
		w.start(t, h, other)
		w.become(t, other.ID, execution.Completed)
		there := w.neighbour(t)
		there.start(t, there.hold(t, subject), inSlot(first.Slot))
	})
}

func TestTheNewestSlotIsFound(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		slots := []string{"heartbeat:x:2026-11-20T09:30Z", "heartbeat:x:2026-11-20T10:00Z", "heartbeat:x:2026-11-20T10:30Z"}
		if got := w.slot(t, slots[0]); len(got) != 0 {
			t.Errorf("found %+v", got)
		}
		for _, slot := range []string{slots[1], slots[0]} { // as a late delivery would order them
			e := newExecution(subject)
			e.Slot = slot
			w.start(t, h, e)
			w.become(t, e.ID, execution.Completed)
		}
		for i, want := range []string{slots[1], slots[1], ""} {
			got := w.slot(t, slots[i])
			if want == "" && len(got) == 0 {
				continue
			}
			if len(got) != 1 || got[0].Slot != want {
				t.Errorf("for %s found %+v", slots[i], got)
			}
		}
		if got := w.neighbour(t).slot(t, slots[0]); len(got) != 0 {
			t.Errorf("a neighbour sees %+v", got)
		}
	})
}

func TestTheWrongLaneProvesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		e := w.start(t, w.hold(t, subject), newExecution(subject))
		wrong := w.hold(t, "objective:2")
		for name, write := range map[string]func(context.Context, lane.Tx) error{
			"start":  func(_ context.Context, tx lane.Tx) error { return w.runs.Start(tx, newExecution(subject)) },
			"resume": func(ctx context.Context, tx lane.Tx) error { return w.runs.Resume(ctx, tx, &e) },
			"leave":  func(_ context.Context, tx lane.Tx) error { return w.runs.Leave(tx, e, execution.Failed, nil, "") },
			"spend":  func(_ context.Context, tx lane.Tx) error { return w.runs.Spend(tx, e, 1, 1, 1) },
			"append": func(_ context.Context, tx lane.Tx) error { return w.runs.Append(tx, e, note(1)) },
		} {
			before := w.get(t, e.ID)
			if err := w.try(t, wrong, write); !errors.Is(err, lane.ErrNotProven) {
				t.Errorf("%s: %v", name, err)
			}
			if err := write(t.Context(), lane.Tx{}); !errors.Is(err, lane.ErrNotProven) {
				t.Errorf("%s without any proof: %v", name, err)
			}
			if diff := cmp.Diff(before, w.get(t, e.ID)); diff != "" {
				t.Errorf("%s changed it: %s", name, diff)
			}
		}
		if found, err := w.runs.Journal(t.Context(), w.Workspace, e.ID, 0); err != nil || len(found) > 0 {
			t.Errorf("the journal has %d entries (%v)", len(found), err)
		}
	})
}

func TestALostHoldChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		e := w.start(t, h, newExecution(subject))
		w.Skew.Advance(10 * time.Minute)
		next := w.hold(t, subject)
		err := w.try(t, h, func(_ context.Context, tx lane.Tx) error { return w.runs.Leave(tx, e, execution.Completed, nil, "") })
		if !errors.Is(err, lane.ErrLost) || w.get(t, e.ID).Status != execution.Running {
			t.Errorf("it is %s (%v)", w.get(t, e.ID).Status, err)
		}
		w.must(t, next, func(ctx context.Context, tx lane.Tx) error { return w.runs.Resume(ctx, tx, &e) })
	})
}

func TestWorkspacesDoNotSeeEachOthersExecutions(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		e := w.start(t, w.hold(t, subject), newExecution(subject))
		there := w.neighbour(t)
		h := there.hold(t, subject)
		if _, err := there.runs.Get(t.Context(), there.Workspace, e.ID); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("get: %v", err)
		}
		if got := there.unfinished(t, subject); len(got) != 0 {
			t.Errorf("unfinished: %+v", got)
		}
		there.must(t, h, func(_ context.Context, tx lane.Tx) error {
			return errors.Join(w.runs.Leave(tx, e, execution.Failed, nil, ""), w.runs.Spend(tx, e, 1, 1, 1))
		})
		if err := there.try(t, h, func(ctx context.Context, tx lane.Tx) error { stolen := e; return w.runs.Resume(ctx, tx, &stolen) }); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("resume: %v", err)
		}
		if err := there.append(t, h, e, note(1)); !errors.Is(err, db.ErrReference) {
			t.Errorf("append: %v", err)
		}
		child := newExecution(subject)
		child.Parent = e.ID
		if err := there.try(t, h, func(_ context.Context, tx lane.Tx) error { return w.runs.Start(tx, child) }); !errors.Is(err, db.ErrReference) {
			t.Errorf("a child of it: %v", err)
		}
		if doing, err := there.runs.Doing(t.Context(), there.Workspace, e.ID); err != nil || doing != "" {
			t.Errorf("doing %q (%v)", doing, err)
		}
		if got := w.get(t, e.ID); got.Status != execution.Running || got.PromptTokens != 0 {
			t.Errorf("it became %+v", got)
		}
	})
}

func TestTheExecutionsOfATraceAreInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		h := w.hold(t, subject)
		var want []string
		id := traces.New(trace.Heartbeat)
		for range 5 {
			e := newExecution(subject)
			e.Trace = id
			want = append(want, w.start(t, h, e).ID)
			w.become(t, e.ID, execution.Completed)
		}
		w.start(t, h, newExecution(subject)) // in another trace
		var b db.Batch
		found := w.runs.OfTrace(&b, id)
		if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range *found {
			got = append(got, e.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
