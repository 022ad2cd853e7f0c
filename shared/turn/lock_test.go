package turn_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// locks has turns lock their threads.
func (v visitor) locks() {
	v.Kinds[len(v.Kinds)-1].LocksThread = true
	v.Poll = 10 * time.Millisecond
}

// begun is another execution.
func (v visitor) begun(t testing.TB) string {
	t.Helper()
	other := execution.Execution{ID: ids(), Agent: "other", Surface: trace.Chat, Trace: traces.New(trace.Chat)}
	v.tx(t, func(ctx context.Context, tx *db.Tx) error {
		_, err := v.Runs.Begin(ctx, tx, other, false)
		return err
	})
	return other.ID
}

// speaker is another execution that speaks in the thread.
func (v visitor) speaker(t testing.TB) string {
	t.Helper()
	other := v.begun(t)
	must(v.Threads.Lock(t.Context(), v.Workspace, v.thread, other))(t)
	return other
}

// ends has another execution end.
func (v visitor) ends(t testing.TB, other string) {
	t.Helper()
	v.tx(t, func(ctx context.Context, tx *db.Tx) error {
		return v.Threads.End(ctx, tx, other, execution.Completed, nil, "")
	})
}

func (v visitor) tx(t testing.TB, fn func(context.Context, *db.Tx) error) {
	t.Helper()
	if err := v.DB.Tx(t.Context(), v.Workspace, fn); err != nil {
		t.Fatal(err)
	}
}

// TestATurnHoldsItsThread while it works: it waits for who speaks there, and lets go when it
// ends, and while it waits for a person.
func TestATurnHoldsItsThread(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.locks()
		holder := func() string { return must(v.Threads.Get(t.Context(), v.Workspace, v.thread))(t).Lock.Holder }
		h, again := newThinking(), newThinking()
		m := llmtest.Write(t, h.then("One."), llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("It waits."), again.then("Paid."))
		v.think(m)
		other := v.speaker(t)
		first := v.says(t.Context(), "1", turn.Enqueue)
		id := <-first.begun
		if len(m.Requests()) > 0 {
			t.Error("it speaks beside another")
		}
		v.ends(t, other)
		if <-h.asked; holder() != id {
			t.Errorf("while it works %q has the thread", holder())
		}
		close(h.answer)
		if first.end(t); holder() != "" {
			t.Errorf("when it has ended %q has the thread", holder())
		}
		second := v.says(t.Context(), "Pay.", turn.Enqueue).end(t)
		if second.Status != execution.Waiting || holder() != "" {
			t.Errorf("while it waits for a person, %+v, %q has the thread", second, holder())
		}
		must(v.Approvals.Approve(t.Context(), v.Workspace, second.Approvals[0], "user:ada", nil))(t)
		go func() {
			if <-again.asked; holder() != second.Execution {
				t.Errorf("while it goes on %q has the thread", holder())
			}
			close(again.answer)
		}()
		if v.drain(t); v.execution(t, second.Execution).Status != execution.Completed || holder() != "" {
			t.Errorf("then %q has the thread", holder())
		}
	})
}

// TestATurnWithoutItsLanesLocksNoThread: it has lost them while it waited for the thread.
func TestATurnWithoutItsLanesLocksNoThread(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.locks()
		v.think(llmtest.Write(t))
		other := v.speaker(t)
		first := v.says(t.Context(), "1", turn.Enqueue)
		id := <-first.begun
		v.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := v.Lanes.ForceRelease(ctx, tx, lane.Execution(id))
			return err
		})
		v.ends(t, other)
		if r := first.end(t); r.Status != execution.Parked {
			t.Errorf("it is %+v", r)
		}
		if th := must(v.Threads.Get(t.Context(), v.Workspace, v.thread))(t); th.Lock.Holder != "" {
			t.Errorf("%q has the thread", th.Lock.Holder)
		}
	})
}

// TestATurnThatMayNotSpeakYetIsParked: it goes on when the other execution has ended, and what is
// queued in the thread behind it is sent after it.
func TestATurnThatMayNotSpeakYetIsParked(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.locks()
		v.Patience = time.Millisecond
		h := newThinking()
		v.think(llmtest.Write(t, h.then("One.")))
		other := v.speaker(t)
		r := v.says(t.Context(), "1", turn.Enqueue).end(t)
		if r.Status != execution.Parked || r.Reason != "another execution speaks in its thread; it goes on by itself" {
			t.Fatalf("it is %+v", r)
		}
		for range 50 { // as often as it likes
			v.Skew.Advance(time.Minute)
			must(v.Threads.Lock(t.Context(), v.Workspace, v.thread, other))(t) // which is not idle
			v.drain(t)
		}
		if e := v.execution(t, r.Execution); e.Status != execution.Parked || e.Parks != 0 {
			t.Fatalf("it is %+v", e)
		}
		v.ends(t, other)
		v.Skew.Advance(time.Minute)
		drained := make(chan struct{})
		go func() { defer close(drained); v.drain(t) }()
		<-h.asked
		third := v.begun(t)
		v.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := v.Threads.Send(ctx, tx, thread.Outgoing{Thread: v.thread, Execution: third, Body: "A note."})
			return err
		})
		if th := must(v.Threads.Get(t.Context(), v.Workspace, v.thread))(t); th.Lock.Holder != r.Execution || th.Queued != 1 {
			t.Errorf("while it works the thread is %+v", th)
		}
		close(h.answer)
		<-drained
		if th := must(v.Threads.Get(t.Context(), v.Workspace, v.thread))(t); th.Queued != 0 {
			t.Errorf("when it has ended the thread is %+v", th)
		}
		if got := v.spoken(t, v.thread); !slices.Equal(got, []string{"user: 1", "assistant: One."}) {
			t.Errorf("the thread has %q", got)
		}
		v.mustBeFree(t)
	})
}

// TestATurnThatGoesOnDoesNotWaitForItsThread: it leaves its place of the outbox's sender to others,
// and keeps its own in line.
func TestATurnThatGoesOnDoesNotWaitForItsThread(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.locks()
		v.Patience = time.Millisecond
		v.think(llmtest.Write(t))
		other := v.speaker(t)
		if r := v.says(t.Context(), "1", turn.Enqueue).end(t); r.Status != execution.Parked {
			t.Fatalf("it is %+v", r)
		}
		v.Patience = time.Hour
		v.Skew.Advance(time.Minute)
		must(v.Threads.Lock(t.Context(), v.Workspace, v.thread, other))(t) // which is not idle
		short, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(20*time.Second, cancel).Stop()
		if report, err := v.Sender.Drain(short, v.Workspace, 20); err != nil || short.Err() != nil || report.Retried != 1 {
			t.Errorf("the sender reports %+v, %v", report, err)
		}
		var b db.Batch
		ahead := v.Runs.Ahead(&b, execution.Line{Lane: ann, Task: "turn", Topic: turn.Topic}, ids())
		if err := v.DB.Read(t.Context(), v.Workspace, &b); err != nil || *ahead != 1 {
			t.Errorf("in line are %d, %v", *ahead, err)
		}
		v.mustBeFree(t)
	})
}
