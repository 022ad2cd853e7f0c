package sqlite_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// TestACallerLeavesWhileBeginWaits: a caller leaves while its BEGIN waits for another handle. No
// transaction stays open, and both handles continue to write.
func TestACallerLeavesWhileBeginWaits(t *testing.T) {
	w := newWorld(t)
	id := w.add(t)
	other, _ := w.Open(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	left := make(chan error, 1)
	err := other.Tx(t.Context(), w.Workspace, func(inner context.Context, tx *db.Tx) error {
		_, err := tx.Exec(inner, w.q.Set, id, 5)
		go func() {
			_, err := w.DB.Exec(ctx, w.Workspace, w.q.Set, id, 7)
			left <- err
		}()
		<-ctx.Done()
		return err
	})
	if err != nil {
		t.Errorf("the other handle: %v", err)
	}
	if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller that left: %v", err)
	}
	w.counts(t, w.DB, id, 5)
	w.works(t, id, w.DB, other)
}

// TestCallersLeaveAtRandom: callers leave at random instants of their reads and writes. The process
// stays intact, and an error means that nothing was written.
func TestCallersLeaveAtRandom(t *testing.T) {
	const callers, each = 4, 300
	w := newWorld(t)
	var wg sync.WaitGroup
	for range callers {
		id := w.add(t)
		wg.Go(func() {
			was := 0
			for n := 1; n <= each; n++ {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(600*time.Microsecond))
				var got int
				if err := w.DB.One(ctx, w.Workspace, []any{&got}, w.q.Count, id); err == nil && got != was {
					t.Errorf("the counter stands at %d, want %d", got, was)
				} else if err != nil && ctx.Err() == nil {
					t.Errorf("a read by a caller who stays: %v", err)
				}
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
				_, err := w.DB.Exec(ctx, w.Workspace, w.q.Set, id, n)
				switch {
				case err == nil:
					was = n
				case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
					t.Errorf("a write: %v, and the caller's end is %v", err, ctx.Err())
					cancel()
					return
				}
				cancel()
			}
			w.counts(t, w.DB, id, was)
		})
	}
	wg.Wait()
	w.works(t, w.add(t), w.DB)
}

// TestACallerLeavesAtEachLook: the caller leaves at each point at which the engine checks its
// context, and learns the outcome of its write. A running COMMIT is finished and reported as done.
func TestACallerLeavesAtEachLook(t *testing.T) {
	w := newWorld(t)
	id := w.add(t)
	looks := 0
	for {
		was := looks
		looks++
		ctx, cancel := context.WithCancel(t.Context())
		look := &leaving{Context: ctx, looks: looks, leave: cancel}
		_, err := w.DB.Exec(look, w.Workspace, w.q.Set, id, looks)
		left := ctx.Err() != nil
		cancel()
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after look %d: %v", looks, err)
			}
			w.counts(t, w.DB, id, 0)
			continue
		}
		w.counts(t, w.DB, id, looks)
		if !left {
			t.Fatalf("the write asked %d times for its caller, and never right before its COMMIT", was)
		}
		break
	}
	w.works(t, id, w.DB)
}

// leaving is the context of a caller that leaves after the context was checked a number of times.
type leaving struct {
	context.Context //nolint:containedctx // it is one
	looks           int
	leave           context.CancelFunc
}

func (l *leaving) Err() error {
	err := l.Context.Err()
	if l.looks--; l.looks == 0 {
		l.leave()
	}
	return err
}

// works fails unless the handles write, and each has all its readers: as many concurrent open reads
// as there are connections.
func (w world) works(t *testing.T, id string, handles ...*db.DB) {
	t.Helper()
	const readers = 4
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, d := range handles {
		if _, err := d.Exec(soon, w.Workspace, w.q.Set, id, 100+i); err != nil {
			t.Errorf("a write afterwards: %v", err)
		}
		var reads, wg sync.WaitGroup
		reads.Add(readers)
		for range readers {
			wg.Go(func() {
				err := d.Each(soon, w.Workspace, func(db.Scan) error {
					reads.Done()
					return wait(soon, &reads)
				}, w.q.Count, id)
				if err != nil {
					t.Errorf("a read afterwards: %v", err)
				}
			})
		}
		wg.Wait()
	}
}

// wait is group.Wait until ctx ends.
func wait(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
