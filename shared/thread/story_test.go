package thread_test

import (
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// TestIndependentAgents: two agents do not know each other. B's message waits for A, then goes.
func TestIndependentAgents(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th := w.open(t, "+441632960961")
		a, b := w.begin(t, "", false), w.begin(t, "", false)
		w.say(t, th, a, "A: your viewing is on Monday")
		w.queue(t, th, b, "B: your invoice is due", 1)
		w.drain(t)
		w.mustHaveSaid(t, "A: your viewing is on Monday")

		w.Skew.Advance(5 * time.Minute)
		w.mustRefuse(t, th, b, a)
		w.say(t, th, a, "A: at ten, does that suit you?") // the holder passes the queue
		w.drain(t)
		w.complete(t, a)
		w.drain(t)
		w.mustHaveSaid(t, "A: your viewing is on Monday", "A: at ten, does that suit you?", "B: your invoice is due")
		w.mustHold(t, th) // the queued message released the thread

		w.say(t, th, b, "B: pay by Friday")
		w.mustHold(t, th, b)
		w.drain(t)
		spoken, more, err := w.threads.Messages(t.Context(), w.Workspace, th, 0, 0)
		if err != nil || more || len(spoken) != 4 {
			t.Fatalf("%d messages, more: %v, %v", len(spoken), more, err)
		}
		for i, by := range []string{a, a, b, b} {
			if m := spoken[i]; m.Execution != by || m.Role != thread.Assistant || m.Body != w.channel.bodies()[i] {
				t.Errorf("message %d is %+v", i, m)
			}
		}
	})
}

// TestChainedAgentsWithWaiting: a coordinator starts a collector and waits. The collector speaks
// under the coordinator's lock, waits half an hour for the person, and finishes. Then the
// coordinator continues.
func TestChainedAgentsWithWaiting(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th := w.open(t, "+441632960961")
		coordinator := w.begin(t, "", false)
		w.say(t, th, coordinator, "coordinator: hello")
		collector := w.begin(t, coordinator, true)
		if got := w.status(t, coordinator); got != execution.Waiting {
			t.Fatalf("the coordinator is %s", got)
		}
		stranger := w.begin(t, coordinator, false) // nobody waits for this one
		w.mustRefuse(t, th, stranger, coordinator)

		w.say(t, th, collector, "collector: may I have your documents?")
		w.mustHold(t, th, coordinator, collector)
		w.mustRefuse(t, th, coordinator, collector) // while the child speaks, the parent must not
		w.park(t, th, collector, 72*time.Hour)
		w.queue(t, th, stranger, "stranger: an offer for you", 1)
		w.drain(t)

		w.Skew.Advance(30 * time.Minute)
		w.sweep(t)
		w.mustRefuse(t, th, stranger, collector)
		if got := w.status(t, collector); got != execution.Parked {
			t.Errorf("the collector is %s", got)
		}
		if resumed := w.answer(t, th, "here they are"); resumed != collector || w.status(t, collector) != execution.Running {
			t.Errorf("resumed %q, the collector is %s", resumed, w.status(t, collector))
		}
		w.say(t, th, collector, "collector: thank you")
		w.complete(t, collector)
		w.mustHold(t, th, coordinator)
		if got := w.status(t, coordinator); got != execution.Running {
			t.Errorf("the coordinator is %s", got)
		}
		w.say(t, th, coordinator, "coordinator: all done")
		w.complete(t, coordinator)
		w.drain(t)
		w.mustHaveSaid(t, "coordinator: hello", "collector: may I have your documents?",
			"collector: thank you", "coordinator: all done", "stranger: an offer for you")
		w.mustHold(t, th)
	})
}

// TestAHungAgent: A hangs. Its lock becomes stale after ten minutes, and B continues at eleven.
func TestAHungAgent(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th := w.open(t, "+441632960961")
		hung, b := w.begin(t, "", false), w.begin(t, "", false)
		w.say(t, th, hung, "A: one moment")
		w.drain(t)
		w.Skew.Advance(5 * time.Minute)
		w.queue(t, th, b, "B: first", 1)
		w.Skew.Advance(4 * time.Minute)
		w.mustRefuse(t, th, b, hung)
		if swept := w.sweep(t); swept.Cleared != 0 {
			t.Fatalf("%+v", swept)
		}
		w.mustList(t, thread.Active, th)

		w.Skew.Advance(2*time.Minute + time.Second)
		w.mustList(t, thread.Stale, th)
		w.mustLock(t, th, b, thread.Cleared)
		w.say(t, th, b, "B: second") // after the message that it had queued
		w.drain(t)
		w.mustHaveSaid(t, "A: one moment", "B: first", "B: second")

		w.queue(t, th, hung, "A: sorry, I slept", 1) // A lives, but does not hold the thread any more
		w.complete(t, b)
		w.drain(t)
		w.mustHaveSaid(t, "A: one moment", "B: first", "B: second", "A: sorry, I slept")
	})
}

// TestAnExpiryWakesTheQueue: nobody asks after the holder hung, and the sweep wakes the queue.
func TestAnExpiryWakesTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th := w.open(t, "x")
		hung, b, c := w.begin(t, "", false), w.begin(t, "", false), w.begin(t, "", false)
		w.mustLock(t, th, hung, thread.Acquired)
		w.queue(t, th, b, "B", 1)
		w.queue(t, th, c, "C", 2)
		w.complete(t, b) // its message is sent nevertheless
		w.Skew.Advance(thread.Idle + time.Second)
		if swept := w.sweep(t); swept.Cleared != 1 || swept.Woken != 0 || swept.More {
			t.Errorf("%+v", swept)
		}
		w.drain(t)
		w.mustHaveSaid(t, "B", "C")
		w.mustHold(t, th)
	})
}

// TestWhatIsQueuedTogetherGoesInItsOrder: the queued messages of one execution go in their order,
// even when all may go at once.
func TestWhatIsQueuedTogetherGoesInItsOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a := w.open(t, "x"), w.begin(t, "", false)
		w.say(t, th, a, "a")
		b, c := w.begin(t, a, true), w.begin(t, a, true)
		w.say(t, th, b, "b")
		for i, body := range []string{"c1", "c2", "c3"} {
			w.queue(t, th, c, body, i+1)
		}
		w.complete(t, b)
		w.drain(t)
		w.mustHaveSaid(t, "a", "b", "c1", "c2", "c3")
	})
}

const free = "-- name: Free\n" +
	"UPDATE threads SET active_execution_id = NULL, lock_stack = '[]', execution_locked_at = NULL WHERE workspace_id = $1 AND id = $2;\n"

// TestAQueueThatWasForgottenGoes: the sweep finds a free thread with queued messages, as a restored
// backup may contain.
func TestAQueueThatWasForgottenGoes(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		w.mustLock(t, th, a, thread.Acquired)
		w.queue(t, th, b, "B", 1)
		var q struct{ Free db.Query }
		if err := db.Load(fstest.MapFS{"raw.sql": {Data: []byte(free)}}, &q); err != nil {
			t.Fatal(err)
		}
		if _, err := w.DB.Exec(t.Context(), w.Workspace, q.Free, th); err != nil {
			t.Fatal(err)
		}
		w.sweep(t)
		w.drain(t)
		w.mustHaveSaid(t, "B")
	})
}

// mustList checks which threads have a lock state.
func (w *world) mustList(t testing.TB, state thread.LockState, want ...string) {
	t.Helper()
	found, _, err := w.threads.List(t.Context(), w.Workspace, thread.Filter{Lock: state})
	var got []string
	for _, th := range found {
		got = append(got, th.ID)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("listed %q, %v, want %q", got, err, want)
	}
}
