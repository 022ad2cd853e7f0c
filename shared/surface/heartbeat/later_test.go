package heartbeat_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// turn takes lane operate like a person's turn.
func (w *world) turn(t testing.TB) *lane.Hold {
	t.Helper()
	request := lane.Request{Workspace: w.Workspace, Lane: lane.Operate, Holder: "ada at her console"}
	return must(w.Lanes.Acquire(trace.WithExecution(t.Context(), ids()), request))(t)
}

// drain sends the due outbox rows, as every process does between beats.
func (w *world) drain(t testing.TB) int {
	t.Helper()
	r, err := w.Sender.Drain(t.Context(), w.Workspace, 50)
	if err != nil || r.Failed+r.Uncertain+r.Retried > 0 {
		t.Fatalf("drained %+v, %v", r, err)
	}
	return r.Sent
}

// TestABeatIsPutOffToTheEndOfAPersonsTurn covers a slot that is due during a turn, or in the two
// minutes after it. The slot runs once, under its own key, when they are over.
func TestABeatIsPutOffToTheEndOfAPersonsTurn(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.plan(t, w.addObjective(t, "x", 5), "work")
		person := w.turn(t)
		first := w.beat(t, slot(1))
		w.wasSkipped(t, first, "a person works in operate")
		w.release(t, person)
		again := w.beat(t, slot(1)) // delivered twice, now in the grace
		w.wasSkipped(t, again, "a person works in operate")
		end := w.lingersUntil(t)
		if again.PutOffTo == nil || again.PutOffTo.Before(end) || again.PutOffTo.After(end.Add(time.Second)) || first.PutOffTo == nil {
			t.Errorf("put off to %v, then %v; the grace ends at %s", first.PutOffTo, again.PutOffTo, end)
		}
		if n := w.drain(t); n != 0 {
			t.Errorf("%d kicks are due in the grace", n)
		}
		w.Skew.Advance(2*time.Minute + time.Second)
		if n := w.drain(t); n != 1 {
			t.Errorf("%d kicks are due at its end", n)
		}
		ran := w.the(t, lane.Heartbeat)
		if ran.Slot != again.Slot || string(ran.Trace) != again.TraceID {
			t.Errorf("what ran is %+v, put off was %+v", ran, again)
		}
		if got := w.actions(t, activity.Filter{Skill: "advance_plan"}); len(got) != 1 {
			t.Errorf("%d steps were advanced", len(got))
		}
		w.Skew.Advance(time.Hour)
		if n := w.drain(t); n != 0 || len(w.ofSubject(t, lane.Heartbeat)) != 1 {
			t.Errorf("later %d kicks are due, and %d beats have run", n, len(w.ofSubject(t, lane.Heartbeat)))
		}
		w.mustBeFree(t)
	})
}

// lingersUntil returns when the grace after the last turn ends.
func (w *world) lingersUntil(t testing.TB) time.Time {
	t.Helper()
	i := must(w.Lanes.Peek(t.Context(), w.Workspace, lane.Operate))(t)
	return i.LockedAt.Add(i.Age + i.Lingers())
}

// TestABeatThatIsPutOffTwice covers a person who begins another turn before the grace ends.
func TestABeatThatIsPutOffTwice(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		w.release(t, w.turn(t))
		w.beat(t, slot(1))
		w.Skew.Advance(2*time.Minute + time.Second)
		w.release(t, w.turn(t))
		if n := w.drain(t); n != 1 || len(w.ofSubject(t, lane.Heartbeat)) != 0 {
			t.Errorf("in the next grace %d kicks were due, and %d beats ran", n, len(w.ofSubject(t, lane.Heartbeat)))
		}
		w.Skew.Advance(2*time.Minute + time.Second)
		if n := w.drain(t); n != 1 || len(w.ofSubject(t, lane.Heartbeat)) != 1 {
			t.Errorf("at its end %d kicks were due, and %d beats ran", n, len(w.ofSubject(t, lane.Heartbeat)))
		}
	})
}

// TestALaterSlotEndsOneThatWasPutOff checks that nothing runs twice or late.
func TestALaterSlotEndsOneThatWasPutOff(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		w.release(t, w.turn(t))
		w.beat(t, slot(1))
		w.Skew.Advance(30 * time.Minute)
		w.beat(t, slot(2)) // this beat also sends the due rows
		if n := w.drain(t); n != 0 {
			t.Errorf("%d kicks are left", n)
		}
		if e := w.the(t, lane.Heartbeat); e.Slot != w.beat(t, slot(2)).Slot {
			t.Errorf("it ran %+v", e)
		}
	})
}

// TestOneSlotIsPutOff checks that a later slot replaces the postponed one while a person works.
func TestOneSlotIsPutOff(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.plan(t, w.addObjective(t, "x", 5), "work")
		person := w.turn(t)
		var last heartbeat.Report
		for n := range 4 {
			last = w.beat(t, slot(n))
			w.wasSkipped(t, last, "a person works in operate")
		}
		open, _, err := w.Outbox.List(t.Context(), w.Workspace, outbox.Filter{Topic: heartbeat.Topic, Status: outbox.Ready})
		if err != nil || len(open) != 1 || string(open[0].Trace) != last.TraceID {
			t.Errorf("put off are %+v, %v", open, err)
		}
		w.release(t, person)
		w.Skew.Advance(2*time.Minute + time.Second)
		if n := w.drain(t); n != 1 || w.the(t, lane.Heartbeat).Slot != last.Slot {
			t.Errorf("%d kicks are due, and what ran is %+v", n, w.ofSubject(t, lane.Heartbeat))
		}
	})
}

// TestABeatByHandThatDiesGoesOnInFull checks that the resumed beat runs every phase, under the id
// that the caller received.
func TestABeatByHandThatDiesGoesOnInFull(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, _ := mortal(1)
		w := newWorld(t, e, pilot(obedient), k)
		w.set(t, `{"reflect_hours": 24}`)
		w.plan(t, w.addObjective(t, "done", 5), "one", "close")
		w.beat(t, slot(1))
		w.beat(t, slot(2)) // reflects; no scheduled beat reflects again today
		w.think(pilot(risky))
		w.plan(t, w.addObjective(t, "x", 5), "one")
		id := ids()
		w.dies(t, heartbeat.Tick{Full: true, ExecutionID: id})
		reflections := func() (n int) {
			for _, phase := range w.actions(t, activity.Filter{Skill: "heartbeat.reflect"}) {
				if strings.Contains(string(phase.Output), `"text"`) {
					n++
				}
			}
			return n
		}
		before := reflections()
		w.Skew.Advance(5*time.Minute + time.Second)
		if n := w.drain(t); n != 1 || before != 1 || reflections() != 2 {
			t.Errorf("%d kicks are due, and it reflected %d times, %d before", n, reflections(), before)
		}
		beats := w.ofSubject(t, lane.Heartbeat)
		if last := beats[len(beats)-1]; len(beats) != 3 || last.ID != id || last.Status != execution.Completed || last.Attempt != 2 {
			t.Errorf("the beats are %+v", beats)
		}
	})
}

// TestABeatByHandThatDiesEachTimeEnds checks that the beat is resumed three times and then left to
// the schedule.
func TestABeatByHandThatDiesEachTimeEnds(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		k, ran := mortal(1_000)
		w := newWorld(t, e, pilot(risky), k)
		w.plan(t, w.addObjective(t, "x", 5), "one")
		w.dies(t, heartbeat.Tick{Full: true})
		for range 12 {
			w.Skew.Advance(time.Hour)
			must(w.Sender.Drain(t.Context(), w.Workspace, 50))(t)
		}
		if beats := w.ofSubject(t, lane.Heartbeat); len(beats) != 1 || beats[0].Attempt != 4 || *ran != 4 {
			t.Errorf("it ran %d times; the beats are %+v", *ran, beats)
		}
		w.dies(t, slot(1))
		if beats := w.ofSubject(t, lane.Heartbeat); len(beats) != 2 || beats[0].Status != execution.Failed {
			t.Errorf("with the next slot the beats are %+v", beats)
		}
	})
}

// TestABeatByHandRunsRightAfterATurn checks also that it waits for a running turn.
func TestABeatByHandRunsRightAfterATurn(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.plan(t, w.addObjective(t, "x", 5), "work", "more")
		w.release(t, w.turn(t))
		if r := w.beat(t, heartbeat.Tick{Full: true}); r.Outcome != heartbeat.Completed || r.Left != 0 {
			t.Errorf("right after a turn it is %+v", r)
		}
		person := w.turn(t)
		w.wasSkipped(t, w.beat(t, heartbeat.Tick{Full: true}), "a person works in operate")
		w.wasSkipped(t, w.beat(t, heartbeat.Tick{Full: true, Wait: 10 * time.Millisecond}), "a person works in operate")

		var wg sync.WaitGroup
		defer wg.Wait()
		ended := make(chan heartbeat.Report, 1)
		before := w.DB.Stats()
		wg.Go(func() {
			r, err := w.Run(t.Context(), heartbeat.Tick{Workspace: w.Workspace, Full: true, Wait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			ended <- r
		})
		for len(ended) == 0 && w.DB.Stats().RoundTrips < before.RoundTrips+5 { // until it has read the lane and waits
			runtime.Gosched()
		}
		if len(ended) > 0 {
			t.Errorf("while the turn runs it has ended")
		}
		w.release(t, person)
		if r := <-ended; r.Outcome != heartbeat.Completed {
			t.Errorf("after the turn it is %+v", r)
		}
		w.mustBeFree(t)
	})
}

// TestABeatThatIsPutOffBeginsWithTimeLeft checks that a postponed beat does not begin at the end of
// an invocation, but in the next one.
func TestABeatThatIsPutOffBeginsWithTimeLeft(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.plan(t, w.addObjective(t, "x", 5), "work")
		person := w.turn(t)
		w.wasSkipped(t, w.beat(t, slot(1)), "a person works in operate")
		w.release(t, person)
		w.Skew.Advance(2*time.Minute + time.Second)

		ending, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if r, err := w.Sender.Drain(ending, w.Workspace, 50); err != nil || r.Claimed != 1 || r.Sent != 0 {
			t.Errorf("at the end of an invocation: %+v, %v", r, err)
		}
		if got := w.actions(t, activity.Filter{Skill: "advance_plan"}); len(got) != 0 {
			t.Errorf("it began: %+v", got)
		}
		w.Skew.Advance(time.Minute + time.Second)
		if n := w.drain(t); n != 1 {
			t.Errorf("a minute later %d kicks are due", n)
		}
		if got := w.actions(t, activity.Filter{Skill: "advance_plan"}); len(got) != 1 {
			t.Errorf("it ran %d times", len(got))
		}
	})
}

// TestABeatWhoseLaneIsTakenIsPutOff checks that the slot runs when the conflicting hold is over,
// without another delivery.
func TestABeatWhoseLaneIsTakenIsPutOff(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		w.plan(t, w.addObjective(t, "x", 5), "work")
		request := lane.Request{Workspace: w.Workspace, Lane: lane.Heartbeat, Holder: "ada at her console", TTL: 4 * time.Minute}
		must(w.Lanes.Acquire(t.Context(), request))(t)
		r := w.beat(t, slot(1))
		w.wasSkipped(t, r, "the lane is taken")
		if r.PutOffTo == nil || w.drain(t) != 0 {
			t.Errorf("put off to %v, and due already", r.PutOffTo)
		}
		w.Skew.Advance(4*time.Minute + time.Second)
		if n := w.drain(t); n != 1 {
			t.Errorf("%d kicks are due when the hold is over", n)
		}
		if ran := w.the(t, lane.Heartbeat); ran.Slot != r.Slot || ran.Status != execution.Completed {
			t.Errorf("what ran is %+v", ran)
		}
		w.mustBeFree(t)
	})
}

// TestABeatThatDiesGoesOn covers a beat that dies long before the next slot and is not delivered
// again. Its work continues when its hold is over. This holds for scheduled beats and for those by
// hand.
func TestABeatThatDiesGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		for name, tick := range map[string]heartbeat.Tick{"a slot": slot(1), "by hand": {}} {
			k, ran := mortal(1)
			w := newWorld(t, e, pilot(risky), k)
			w.Workspace = dbtest.NewWorkspace(t, w.DB)
			id := w.plan(t, w.addObjective(t, "x", 5), "one")
			w.dies(t, tick)
			if n := w.drain(t); n != 0 || *ran != 1 {
				t.Errorf("%s: %d kicks are due before the hold is over", name, n)
			}
			w.Skew.Advance(5*time.Minute + time.Second)
			if n := w.drain(t); n != 1 || *ran != 2 {
				t.Errorf("%s: %d kicks are due when it is, and the skill ran %d times", name, n, *ran)
			}
			if o := w.objective(t, id); o.Plan[0].Status != objective.Done {
				t.Errorf("%s: the plan is %+v", name, o.Plan)
			}
			w.Skew.Advance(time.Hour)
			if n := w.drain(t); n != 0 {
				t.Errorf("%s: later %d kicks are due", name, n)
			}
			w.mustBeFree(t)
		}
	})
}
