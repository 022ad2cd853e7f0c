package thread_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// TestAnAnswerMeetsAPark: the person answers while the thread is being parked, and the owner
// continues nevertheless. SQLite has one writer, so this can't happen there.
func TestAnAnswerMeetsAPark(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnPostgres))
	for i := range 10 {
		th, a := w.open(t, numbered(i)), w.begin(t, "", false)
		w.say(t, th, a, "who are you?")
		answered := make(chan string)
		w.must(t, func(ctx context.Context, tx *db.Tx) error {
			if err := w.threads.Park(ctx, tx, th, a, "", time.Hour); err != nil {
				return err
			}
			comes := make(chan bool)
			go func() {
				var resumed string
				err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
					close(comes)
					_, resumed, err = w.threads.Append(ctx, tx, th, thread.Spoken{Role: thread.User, Body: "Ada"})
					return err
				})
				if err != nil {
					t.Error(err)
				}
				answered <- resumed
			}()
			<-comes
			return nil
		})
		if resumed := <-answered; resumed != a || w.status(t, a) != execution.Running || w.get(t, th).Lock.ParkedBy != "" {
			t.Fatalf("resumed %q, the owner is %s", resumed, w.status(t, a))
		}
	}
}

// TestAnAnswerByAClockThatWasSetBack: the order of the person's messages decides, and not their times.
func TestAnAnswerByAClockThatWasSetBack(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a := w.open(t, "x"), w.begin(t, "", false)
		w.say(t, th, a, "who are you?")
		read, _, err := w.tryAnswer(t, th, "one moment", "")
		if err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(-time.Minute)
		w.answer(t, th, "Ada")
		if err := w.tryPark(t, th, a, read, time.Hour); !errors.Is(err, thread.ErrAnswered) {
			t.Errorf("behind the message that was read: %v", err)
		}
	})
}

// TestAnAnswerBeforeAPark: an execution that parks after the answer is told that there is nothing
// to wait for.
func TestAnAnswerBeforeAPark(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		first, _, err := w.tryAnswer(t, th, "hello", "")
		if err != nil {
			t.Fatal(err)
		}
		w.say(t, th, a, "who are you?")
		w.park(t, th, a, time.Hour) // a message before the question is no answer
		if resumed := w.answer(t, th, "one moment"); resumed != a {
			t.Errorf("resumed %q", resumed)
		}
		w.queue(t, th, b, "an offer", 1) // nobody has read it
		moment, _, err := w.tryAnswer(t, th, "Ada", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, seen := range []string{"", first, ids()} {
			if err := w.tryPark(t, th, a, seen, time.Hour); !errors.Is(err, thread.ErrAnswered) {
				t.Errorf("behind %q: %v", seen, err)
			}
		}
		if got := w.status(t, a); got != execution.Running || w.get(t, th).Lock.ParkedBy != "" {
			t.Errorf("refused, the owner is %s", got)
		}
		if err := w.tryPark(t, th, a, moment, time.Hour); err != nil { // the owner has read that message and waits again
			t.Error(err)
		}
	})
}

// TestARedeliveredAnswer: a message that is delivered twice wakes nobody the second time.
func TestARedeliveredAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a := w.open(t, "x"), w.begin(t, "", false)
		first, _, err := w.tryAnswer(t, th, "hello", "k")
		if err != nil {
			t.Fatal(err)
		}
		w.say(t, th, a, "who are you?")
		w.park(t, th, a, time.Hour)
		before := w.DB.Stats()
		again, resumed, err := w.tryAnswer(t, th, "hello", "k")
		if again != first || resumed != "" || err != nil || w.status(t, a) != execution.Parked {
			t.Errorf("the message is %s, then %s, %v; resumed %q", first, again, err, resumed)
		}
		if trips := w.DB.Stats().Sub(before).RoundTrips; trips > 3 { // one of them is this test's own
			t.Errorf("%d round trips", trips)
		}
		if _, _, err := w.tryAnswer(t, th, "Ada", "k"); !errors.Is(err, thread.ErrKey) {
			t.Errorf("another text: %v", err)
		}
		if got := w.get(t, th).Lock; got.ParkedBy != a {
			t.Errorf("%+v", got)
		}
	})
}

// TestNobodyStaysParkedForEver: however the parking ends, the next sweep resumes the execution.
func TestNobodyStaysParkedForEver(t *testing.T) {
	for end, fn := range map[string]func(t *testing.T, w *world, th, owner string){
		"its time is over": func(t *testing.T, w *world, _, _ string) { w.Skew.Advance(time.Hour + time.Second) },
		"superseded": func(t *testing.T, w *world, th, _ string) {
			w.mustLock(t, th, w.begin(t, "", false), thread.Cleared)
		},
		"by force": func(t *testing.T, w *world, th, _ string) {
			w.must(t, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.threads.ForceUnlock(ctx, tx, th)
				return err
			})
		},
		"let go by itself": func(t *testing.T, w *world, th, owner string) {
			w.must(t, func(ctx context.Context, tx *db.Tx) error { return w.threads.Unlock(ctx, tx, th, owner) })
		},
	} {
		t.Run(end, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				th := w.opened(t, thread.Thread{Channel: "ledger", Address: "x", Policy: thread.Supersede})
				other, parked := w.open(t, "y"), w.begin(t, "", false)
				parent := w.begin(t, "", false)
				owner := w.begin(t, parent, true)
				w.mustLock(t, th, owner, thread.Acquired)
				w.park(t, th, owner, time.Hour)
				w.mustLock(t, other, parked, thread.Acquired)
				w.park(t, other, parked, 2*time.Hour)
				if w.due(t) {
					t.Error("there is something to sweep while it is parked")
				}
				fn(t, w, th, owner)
				if !w.due(t) {
					t.Error("there is nothing to sweep")
				}
				w.sweep(t)
				if is, others := w.status(t, owner), w.status(t, parked); is != execution.Running || others != execution.Parked || w.due(t) {
					t.Errorf("the owner is %s, another's %s, and there is more: %t", is, others, w.due(t))
				}
				w.complete(t, owner)
				if is := w.status(t, parent); is != execution.Running {
					t.Errorf("the parent is %s", is)
				}
			})
		})
	}
}

func (w *world) due(t testing.TB) bool {
	t.Helper()
	var b db.Batch
	due := w.threads.Due(&b)
	if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return *due == 1
}

// TestWhenToTryAgain: a short parking does not make the lock stale before its ten minutes are over.
func TestWhenToTryAgain(t *testing.T) {
	until := func(d time.Duration) *time.Time { at := time.Unix(0, 0).Add(d); return &at }
	for want, l := range map[time.Duration]thread.Lock{
		9 * time.Minute:  {Holder: "a", Age: time.Minute},
		0:                {Holder: "a", Age: time.Hour},
		6 * time.Minute:  {Holder: "a", Age: 4 * time.Minute, ParkedBy: "a", ParkedUntil: until(5 * time.Minute)},
		56 * time.Minute: {Holder: "a", Age: 4 * time.Minute, ParkedBy: "a", ParkedUntil: until(time.Hour)},
		8 * time.Minute:  {Holder: "b", Age: 2 * time.Minute, ParkedBy: "a", ParkedUntil: until(time.Hour)},
	} {
		l.Since = time.Unix(0, 0)
		if got := (&thread.HeldError{Lock: l}).RetryAfter(); got != want {
			t.Errorf("%+v: %s, want %s", l, got, want)
		}
	}
}

// TestASiblingsMessageGoesWhenTheThreadComesBackToTheirParent: two children that are waited for
// speak one after the other, and then their parent.
func TestASiblingsMessageGoesWhenTheThreadComesBackToTheirParent(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a := w.open(t, "anna"), w.begin(t, "", false)
		w.say(t, th, a, "a1")
		b1, b2 := w.begin(t, a, true), w.begin(t, a, true)
		w.say(t, th, b1, "b1")
		w.queue(t, th, b2, "b2", 1)
		grandchild := w.begin(t, b2, true)
		w.queue(t, th, grandchild, "c", 2)
		w.queue(t, th, a, "a2", 3)
		w.complete(t, b1)
		w.drain(t)
		w.mustHaveSaid(t, "a1", "b1", "b2", "c")
		if got := w.get(t, th); got.Lock.Holder != grandchild || got.Queued != 1 {
			t.Errorf("it is held by %s, %d queued", got.Lock.Holder, got.Queued)
		}
		w.complete(t, grandchild)
		w.complete(t, b2)
		w.drain(t)
		w.mustHaveSaid(t, "a1", "b1", "b2", "c", "a2")
		w.complete(t, a)
		w.mustHold(t, th)
	})
}

// TestWhatWasSpokenEarlierIsNoAnswer: an execution that waits for the person goes on waiting.
func TestWhatWasSpokenEarlierIsNoAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a := w.open(t, "x"), w.begin(t, "", false)
		w.say(t, th, a, "who are you?")
		w.park(t, th, a, time.Hour)
		w.must(t, func(ctx context.Context, tx *db.Tx) error {
			for _, first := range []bool{true, false} { // a message that may have been stored already takes another way
				m := thread.Spoken{Role: thread.User, Body: "Hello", First: first, Earlier: true}
				_, resumed, err := w.threads.Append(ctx, tx, th, m)
				if resumed != "" {
					t.Errorf("first: %t: resumed %q", first, resumed)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if w.status(t, a) != execution.Parked || w.get(t, th).Lock.ParkedBy != a {
			t.Errorf("the owner is %s", w.status(t, a))
		}
		if resumed := w.answer(t, th, "Ada"); resumed != a {
			t.Errorf("the answer resumed %q", resumed)
		}
	})
}

// TestTheLatestMessagesAreBounded by their bytes: the newest come, however many more were asked for.
func TestTheLatestMessagesAreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, long := w.open(t, "x"), strings.Repeat("x", 64<<10-1)
		w.must(t, func(ctx context.Context, tx *db.Tx) error {
			for i := range 70 {
				m := thread.Spoken{Role: thread.User, Body: string(rune('0'+i)) + long, First: true}
				if _, _, err := w.threads.Append(ctx, tx, th, m); err != nil {
					return err
				}
			}
			return nil
		})
		got, err := w.threads.Lately(t.Context(), w.Workspace, th, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 64 || got[0].Body[0] != '0'+6 || got[63].Body[0] != '0'+69 {
			t.Errorf("there come %d messages", len(got))
		}
		if got, err = w.threads.Lately(t.Context(), w.Workspace, th, 2); err != nil || len(got) != 2 || got[1].Body[0] != '0'+69 {
			t.Errorf("of two come %d, %v", len(got), err)
		}
	})
}
