package thread_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// TestInheritance: an execution may speak under another when every parent between them began its
// child to wait for it, all on the way are alive and waiting, and the holder is on top.
func TestInheritance(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		root := w.begin(t, "", false)
		child := w.begin(t, root, true)
		sibling := w.begin(t, root, true)
		grandchild := w.begin(t, child, true)
		loose := w.begin(t, child, false)
		underLoose := w.begin(t, loose, true)

		th := w.open(t, "x")
		w.mustLock(t, th, root, thread.Acquired)
		w.mustRefuse(t, th, loose, root)
		w.mustRefuse(t, th, underLoose, root)
		w.mustLock(t, th, grandchild, thread.Inherited) // past its parent, which waits
		w.mustRefuse(t, th, sibling, grandchild)        // siblings that are waited for take turns
		w.mustRefuse(t, th, child, grandchild)
		w.complete(t, grandchild)
		w.mustHold(t, th, root)
		w.mustLock(t, th, sibling, thread.Inherited)
		w.mustLock(t, th, sibling, thread.Refreshed)
		w.end(t, root, execution.Failed) // its end does not free the thread under the child
		w.mustRefuse(t, th, loose, sibling)
		w.complete(t, sibling)
		w.mustHold(t, th)
		w.mustLock(t, th, child, thread.Acquired)
	})
}

// TestARefusalIsNoNews: whoever waits for a thread asks again and again. What changes who holds it is logged.
func TestARefusalIsNoNews(t *testing.T) {
	w := newWorld(t, inSQLite(t))
	var log bytes.Buffer
	logged, err := thread.New(w.DB, w.runs, w.outbox, ids, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	w.threads = logged
	holder, waits, th := w.begin(t, "", false), w.begin(t, "", false), w.open(t, "x")
	w.mustLock(t, th, holder, thread.Acquired)
	for range 3 {
		w.mustRefuse(t, th, waits, holder)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "thread acquired") {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// TestASendThatIsRolledBackIsNoNews: nothing is logged in a transaction, which may not come to its commit.
func TestASendThatIsRolledBackIsNoNews(t *testing.T) {
	w := newWorld(t, inSQLite(t))
	var log bytes.Buffer
	logged, err := thread.New(w.DB, w.runs, w.outbox, ids, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	speaks, th, undone := w.begin(t, "", false), w.open(t, "x"), errors.New("rolled back")
	err = w.try(t, func(ctx context.Context, tx *db.Tx) error {
		_, err := logged.Send(ctx, tx, thread.Outgoing{Thread: th, Execution: speaks, Body: "Hello."})
		return cmp.Or(err, undone)
	})
	if !errors.Is(err, undone) || log.Len() > 0 {
		t.Errorf("%v, and it logs %s", err, log.String())
	}
}

func TestAParentThatStoppedWaitingIsNotInheritedFrom(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		root := w.begin(t, "", false)
		w.begin(t, root, true) // the root continues to wait for this one
		child := w.begin(t, root, true)
		grandchild := w.begin(t, child, true)
		th := w.open(t, "x")
		w.mustLock(t, th, root, thread.Acquired)
		w.end(t, child, execution.Cancelled)
		w.mustRefuse(t, th, grandchild, root)
	})
}

func TestAnEndReleasesAllThreads(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		a, b := w.begin(t, "", false), w.begin(t, "", false)
		one, two, three := w.open(t, "1"), w.open(t, "2"), w.open(t, "3")
		for _, th := range []string{one, two, three} {
			w.mustLock(t, th, a, thread.Acquired)
		}
		queued := w.queue(t, two, b, "B", 1)
		w.end(t, a, execution.Failed)
		w.mustHold(t, one)
		w.mustHold(t, two, queued) // for its own send
		w.mustHold(t, three)
		if got := w.get(t, two).Lock; got.Execution() != b {
			t.Errorf("%+v", got)
		}
		c := w.begin(t, "", false)
		w.mustRefuse(t, two, c, b)
		w.mustLock(t, two, b, thread.Acquired) // its own message does not block it
		w.say(t, two, b, "B again")
		w.drain(t)
		w.mustHaveSaid(t, "B", "B again")
		w.mustHold(t, two, b)
	})
}

func TestWhoMayNotAsk(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, e := w.open(t, "x"), w.begin(t, "", false)
		if _, err := w.lock(t, th, ids()); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("nobody: %v", err)
		}
		if _, err := w.lock(t, ids(), e); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("no thread: %v", err)
		}
		w.complete(t, e)
		_, err := w.lock(t, th, e)
		if ended, ok := errors.AsType[*execution.EndedError](err); !ok || ended.Status != execution.Completed {
			t.Errorf("ended: %v", err)
		}
		if _, err := w.trySend(t, thread.Outgoing{Thread: th, Execution: e, Body: "x"}); !errors.As(err, new(*execution.EndedError)) {
			t.Errorf("ended: %v", err)
		}
		w.mustHold(t, th)
	})
}

func TestUnlock(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		unlock := func(e string) error {
			return w.try(t, func(ctx context.Context, tx *db.Tx) error { return w.threads.Unlock(ctx, tx, th, e) })
		}
		if err := unlock(a); !errors.Is(err, thread.ErrNotHeld) {
			t.Errorf("free: %v", err)
		}
		w.mustLock(t, th, a, thread.Acquired)
		if err := unlock(b); !errors.Is(err, thread.ErrNotHeld) {
			t.Errorf("another's: %v", err)
		}
		w.mustHold(t, th, a)
		if err := unlock(a); err != nil {
			t.Error(err)
		}
		w.mustHold(t, th)
	})
}

func TestForce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		force := func() (was thread.Lock, err error) {
			err = w.try(t, func(ctx context.Context, tx *db.Tx) error {
				was, err = w.threads.ForceUnlock(ctx, tx, th)
				return err
			})
			return was, err
		}
		if _, err := force(); !errors.Is(err, thread.ErrNotHeld) {
			t.Errorf("free: %v", err)
		}
		w.mustLock(t, th, a, thread.Acquired)
		w.park(t, th, a, time.Hour)
		w.queue(t, th, b, "B", 1)
		if was, err := force(); err != nil || was.Execution() != a {
			t.Errorf("%+v, %v", was, err)
		}
		w.drain(t)
		w.mustHaveSaid(t, "B")
		w.mustHold(t, th)
	})
}

func TestWhatOthersMayDoWhileAThreadIsParked(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		a, b := w.begin(t, "", false), w.begin(t, "", false)
		parked := func(address string, p thread.Policy) string {
			th := w.opened(t, thread.Thread{Channel: "ledger", Address: address, Policy: p})
			w.mustLock(t, th, a, thread.Acquired)
			w.park(t, th, a, time.Hour)
			w.Skew.Advance(20 * time.Minute)
			return th
		}
		w.mustRefuse(t, parked("queue", thread.Queue), b, a)

		th := parked("supersede", thread.Supersede)
		w.mustLock(t, th, b, thread.Cleared)
		w.mustHold(t, th, b)
		if resumed := w.answer(t, th, "hello"); resumed != "" {
			t.Errorf("resumed %s", resumed)
		}

		th = parked("hand over", thread.HandOver)
		w.mustLock(t, th, b, thread.HandedOver)
		w.mustHold(t, th, a, b)
		w.complete(t, b)
		w.mustHold(t, th, a)
		if resumed := w.answer(t, th, "hello"); resumed != a {
			t.Errorf("resumed %q", resumed)
		}

		c := w.begin(t, "", false)
		th = parked("for too long", thread.Queue)
		w.Skew.Advance(39 * time.Minute)
		w.mustRefuse(t, th, c, a)
		w.Skew.Advance(2 * time.Minute)
		w.mustLock(t, th, c, thread.Cleared)

		th = w.open(t, "for a minute")
		w.mustLock(t, th, a, thread.Acquired)
		w.park(t, th, a, time.Minute)
		w.mustRefuse(t, th, c, a)
		w.Skew.Advance(time.Minute)
		w.mustLock(t, th, c, thread.Cleared)
	})
}

// TestStatementsAndRoundTrips: a lock is one round trip, whatever its outcome.
func TestStatementsAndRoundTrips(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		for _, step := range []struct {
			what string
			want db.Stats
			do   func()
		}{
			{"lock", db.Stats{Statements: 5, RoundTrips: 1}, func() { w.mustLock(t, th, a, thread.Acquired) }},
			{"refresh", db.Stats{Statements: 5, RoundTrips: 1}, func() { w.mustLock(t, th, a, thread.Refreshed) }},
			{"refusal", db.Stats{Statements: 5, RoundTrips: 1}, func() { w.mustRefuse(t, th, b, a) }},
			{"send", db.Stats{Statements: 8, RoundTrips: 2}, func() { w.say(t, th, a, "A") }},
			{"queue", db.Stats{Statements: 9, RoundTrips: 3}, func() { w.queue(t, th, b, "B", 1) }},
			{"end", db.Stats{Statements: 7, RoundTrips: 4}, func() { w.complete(t, a) }},
			{"two sent", db.Stats{Statements: 2*(1+1+5) + 2, RoundTrips: 2*3 + 2}, func() { w.drain(t) }},
			{"idle sweep", db.Stats{Statements: 4, RoundTrips: 2}, func() { w.sweep(t) }},
			{"lock what is free", db.Stats{Statements: 5, RoundTrips: 1}, func() { w.mustLock(t, th, b, thread.Acquired) }},
			{"end, and nobody waits", db.Stats{Statements: 5, RoundTrips: 4}, func() { w.complete(t, b) }},
		} {
			before := w.DB.Stats()
			step.do()
			if got := w.DB.Stats().Sub(before); got != step.want {
				t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
			}
		}
	})
}

// TestAFreeThreadIsTaken in the transaction that begins the execution. A thread that another holds, or
// has parked, is left to Lock.
func TestAFreeThreadIsTaken(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th := w.open(t, "x")
		take := func(execution string) bool {
			t.Helper()
			var taken func(context.Context) bool
			w.must(t, func(_ context.Context, tx *db.Tx) error {
				taken = w.threads.TakeFree(tx.Later(), th, execution)
				return nil
			})
			return taken(t.Context())
		}
		a, b := w.begin(t, "", false), w.begin(t, "", false)
		if !take(a) {
			t.Error("nobody gets the free thread")
		}
		w.mustHold(t, th, a)
		w.mustLock(t, th, a, thread.Refreshed)
		if take(b) {
			t.Error("another gets the thread")
		}
		w.mustHold(t, th, a)
		w.complete(t, a)
		if !take(b) {
			t.Error("nobody gets the thread once it is free again")
		}
		w.mustHold(t, th, b)
	})
}
