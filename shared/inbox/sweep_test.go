package inbox_test

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/failure"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// endKick ends the row of the outbox by which a delivery goes on, as after its last try.
func (w *world) endKick(t testing.TB) {
	t.Helper()
	claimed, err := w.outbox.Claim(t.Context(), outbox.Request{Workspace: w.Workspace, Topics: []string{inbox.Topic}, Holder: "test", Limit: 1, Lease: time.Minute})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%d rows are due, %v", len(claimed), err)
	}
	w.in(t, func(_ context.Context, tx *db.Tx) error {
		w.outbox.UncertainIn(tx.Later(), claimed[0], errors.New("it was cut off in its last try"))
		return nil
	})
}

func (w *world) in(t testing.TB, fn func(ctx context.Context, tx *db.Tx) error) {
	t.Helper()
	if err := w.DB.Tx(t.Context(), w.Workspace, fn); err != nil {
		t.Fatal(err)
	}
}

func (w *world) sweep(t testing.TB) inbox.Swept {
	t.Helper()
	swept, err := w.s.Sweep(t.Context(), w.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

// ready are the ids of the deliveries that the outbox has a row for.
func (w *world) ready(t testing.TB) (ids []string) {
	t.Helper()
	for _, row := range w.kicks(t) {
		if id, _ := inbox.DeliveryOf(row.Payload); row.Status == outbox.Ready {
			ids = append(ids, id)
		}
	}
	return ids
}

// due reports whether the schedule looks into the workspace.
func (w *world) due(t testing.TB) bool {
	t.Helper()
	all, err1 := workspace.New(w.DB)
	if err1 != nil {
		t.Fatal(err1)
	}
	due, _, err := all.Due(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(due, w.Workspace)
}

// TestADeliveryWithoutItsRowGoesOn, whether the row has ended or is gone, in each status in which the
// delivery is open; and the schedule looks for it.
func TestADeliveryWithoutItsRowGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true})
		f := w.find(t, "gh")
		for _, status := range []inbox.Status{inbox.Received, inbox.Working, inbox.Failed} {
			for _, gone := range []bool{false, true} {
				id := w.receive(t, f, string(status)+strings.Repeat("x", len(w.kicks(t))), "body").ID
				if status != inbox.Received {
					w.in(t, func(ctx context.Context, tx *db.Tx) error {
						_, _, err := w.s.Begin(ctx, tx, id, inbox.Try{Action: "skill x", Execution: ids()})
						if status == inbox.Failed {
							w.s.End(tx.Later(), id, inbox.Ending{Status: status, Error: "no", Wait: time.Millisecond})
						}
						return err
					})
				}
				if got := w.sweep(t); got != (inbox.Swept{}) {
					t.Fatalf("%s with its row: %+v", status, got)
				}
				w.endKick(t)
				if gone {
					if _, err := w.DB.Exec(t.Context(), w.Workspace, own(t).ForgetKick, "inbox:"+id); err != nil {
						t.Fatal(err)
					}
				}
				if !w.due(t) {
					t.Errorf("%s without its row: the schedule does not look into the workspace", status)
				}
				if got := w.sweep(t); got != (inbox.Swept{Kicked: 1}) {
					t.Errorf("%s without its row: %+v", status, got)
				}
				if got := w.ready(t); !slices.Equal(got, []string{id}) {
					t.Errorf("%s: the outbox goes on with %v, not %s", status, got, id)
				}
				w.endKick(t)
				w.in(t, func(ctx context.Context, tx *db.Tx) error {
					_, _, err := w.s.Begin(ctx, tx, id, inbox.Try{})
					w.s.End(tx.Later(), id, inbox.Ending{Status: inbox.Done})
					return err
				})
				if got := w.sweep(t); got != (inbox.Swept{}) || w.due(t) {
					t.Errorf("%s, done: %+v", status, got)
				}
			}
		}
	})
}

// failed returns the ids of what people are told has failed.
func (w *world) failed(t testing.TB) (all []string) {
	t.Helper()
	s, err := failure.New(w.DB)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.List(t.Context(), w.Workspace, db.Position{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Kind == failure.Delivery && f.Why != "" {
			all = append(all, f.ID)
		}
	}
	return all
}

// TestADeliveryThatNothingHelpsIsGivenUp after a few sweeps, until a person has it redelivered.
func TestADeliveryThatNothingHelpsIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true})
		for name, begun := range map[string]bool{"begun": true, "received": false} {
			id := w.receive(t, w.find(t, "gh"), name, "body").ID
			if begun {
				w.in(t, func(ctx context.Context, tx *db.Tx) error {
					_, _, err := w.s.Begin(ctx, tx, id, inbox.Try{Action: "skill x", Execution: ids()})
					return err
				})
			}
			for range 3 {
				w.endKick(t)
				if got := w.sweep(t); got.Kicked != 1 {
					t.Fatalf("%s: %+v", name, got)
				}
			}
			w.endKick(t)
			if got := w.sweep(t); got != (inbox.Swept{GivenUp: 1}) {
				t.Errorf("%s, for the fourth time: %+v", name, got)
			}
			want := inbox.Parked
			if begun {
				want = inbox.Working
			}
			if d := w.delivery(t, id); d.Status != want || d.Error == "" || w.due(t) || w.sweep(t) != (inbox.Swept{}) {
				t.Errorf("%s, given up: %+v", name, d)
			}
			if got := w.failed(t); !slices.Equal(got, []string{id}) {
				t.Errorf("%s, given up: people are told that %v failed", name, got)
			}
			w.in(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.s.Replay(ctx, tx, id, false); return err })
			if got := w.ready(t); !slices.Equal(got, []string{id}) || len(w.failed(t)) > 0 {
				t.Errorf("%s, redelivered: the outbox goes on with %v", name, got)
			}
			w.endKick(t)
			if got := w.sweep(t); got.Kicked != 1 {
				t.Errorf("%s, redelivered and lost: %+v", name, got)
			}
			w.in(t, func(ctx context.Context, tx *db.Tx) error {
				_, _, err := w.s.Begin(ctx, tx, id, inbox.Try{})
				w.s.End(tx.Later(), id, inbox.Ending{Status: inbox.Done})
				return err
			})
			w.endKick(t)
		}
	})
}

// TestWhatIsLeftOfAnEarlierDeliveryStandsInNoWay: a request whose delivery was purged comes again,
// and is worked on, though the outbox still has the row of the first.
func TestWhatIsLeftOfAnEarlierDeliveryStandsInNoWay(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true})
		f := w.find(t, "gh")
		first := w.receive(t, f, "d1", "body").ID
		w.endKick(t)
		if _, err := w.DB.Exec(t.Context(), w.Workspace, own(t).ForgetDelivery, first); err != nil {
			t.Fatal(err)
		}
		again := w.receive(t, f, "d1", "body")
		if got := w.ready(t); again.Duplicate || !slices.Equal(got, []string{again.ID}) {
			t.Errorf("%+v: the outbox goes on with %v", again, got)
		}
	})
}

// TestSweepsAtOnce: several at once add one row to the outbox for each delivery.
func TestSweepsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true})
		f := w.find(t, "gh")
		var want []string
		for _, name := range []string{"d1", "d2", "d3"} {
			want = append(want, w.receive(t, f, name, "body").ID)
			w.endKick(t)
		}
		var sweeping sync.WaitGroup
		for range 4 {
			sweeping.Go(func() {
				if _, err := w.s.Sweep(t.Context(), w.Workspace); err != nil {
					t.Error(err)
				}
			})
		}
		sweeping.Wait()
		got := w.ready(t)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the outbox goes on with %v, not %v", got, want)
		}
	})
}

// between returns a store whose first sweep that finds a delivery with kicks left is interrupted by
// fn, after it has read and before it writes.
func (w *world) between(t *testing.T, fn func()) *inbox.Store {
	t.Helper()
	once := sync.OnceFunc(fn)
	mine := *w
	var err error
	mine.outbox, err = outbox.New(w.DB, func() string { once(); return ids() }, mathrand.Float64)
	if err != nil {
		t.Fatal(err)
	}
	return mine.store(t)
}

// TestTwoSweepsCountOneKick: two sweeps that found the same delivery restore its row once, so that the
// sweep that gives it up still comes.
func TestTwoSweepsCountOneKick(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true})
		id := w.receive(t, w.find(t, "gh"), "d1", "body").ID
		for range 2 {
			w.endKick(t)
			w.sweep(t)
		}
		w.endKick(t)
		slow := w.between(t, func() { w.sweep(t) })
		if got, err := slow.Sweep(t.Context(), w.Workspace); err != nil || got != (inbox.Swept{}) {
			t.Errorf("the sweep that came second: %+v, %v", got, err)
		}
		w.endKick(t)
		if !w.due(t) {
			t.Error("the schedule does not look into the workspace")
		}
		if got := w.sweep(t); got != (inbox.Swept{GivenUp: 1}) {
			t.Errorf("the last sweep: %+v", got)
		}
		if d := w.delivery(t, id); d.Status != inbox.Parked {
			t.Errorf("in the end it is %s", d.Status)
		}
	})
}

// TestARedeliveryOutrunsTheSweep that read the delivery before, and would give it up.
func TestARedeliveryOutrunsTheSweep(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true})
		f := w.find(t, "gh")
		id := w.receive(t, f, "d1", "body").ID
		for range 3 {
			w.endKick(t)
			w.sweep(t)
		}
		w.endKick(t)
		other := w.receive(t, f, "d2", "body").ID
		w.endKick(t)
		slow := w.between(t, func() {
			w.in(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.s.Replay(ctx, tx, id, false); return err })
		})
		if got, err := slow.Sweep(t.Context(), w.Workspace); err != nil || got != (inbox.Swept{Kicked: 1}) {
			t.Errorf("the sweep: %+v, %v", got, err)
		}
		if d := w.delivery(t, id); d.Status != inbox.Received || d.Error != "" {
			t.Errorf("redelivered: %s, %q", d.Status, d.Error)
		}
		if got, want := w.ready(t), []string{id, other}; len(got) != 2 || !slices.Contains(got, id) || !slices.Contains(got, other) {
			t.Errorf("the outbox goes on with %v, not %v", got, want)
		}
	})
}
