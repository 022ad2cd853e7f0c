package event_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/event"
)

// follower reads on from its position, and returns the subjects that it finds.
type follower func(context.Context) ([]string, error)

// byCursor follows by cursor, the correct way.
func (w world) byCursor(at event.Cursor) follower {
	return func(ctx context.Context) ([]string, error) {
		found, next, err := w.events.Read(ctx, w.Workspace, at, nil, 7)
		at = next
		return subjects(found), err
	}
}

// byID follows by id only.
func (w world) byID(t testing.TB) follower {
	var q struct{ ByID db.Query }
	dbtest.Load(t, "testdata/broken", &q)
	last := int64(0)
	return func(ctx context.Context) (found []string, err error) {
		err = w.DB.Each(ctx, w.Workspace, func(scan db.Scan) error {
			var subject string
			err := scan(&last, &subject)
			found = append(found, subject)
			return err
		}, q.ByID, last, 7)
		return found, err
	}
}

const writers, transactions = 8, 30

// write runs many concurrent writers with transactions of 1 to 6 statements. Some statements add an
// event, some transactions are rolled back, and some do something else. It returns the subjects
// that were committed.
func (w world) write(t *testing.T, seed uint64) []string {
	d, _ := w.Open(t, writers)
	var mu sync.Mutex
	var committed []string
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			for i := range transactions {
				var mine []string
				undo := r.IntN(6) == 0
				err := d.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
					for s := range 1 + r.IntN(6) {
						subject := fmt.Sprintf("%d.%d.%d", n, i, s)
						if _, err := tx.Exec(ctx, w.q.Add, "a", subject); err != nil {
							return err
						}
						mine = append(mine, subject)
					}
					if undo {
						return context.Canceled
					}
					return nil
				})
				switch {
				case err == nil:
					mu.Lock()
					committed = append(committed, mine...)
					mu.Unlock()
				case !undo:
					t.Errorf("writer %d: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return committed
}

// loss counts a follower's errors.
type loss struct{ lost, twice, foreign int }

// compare compares what a follower saw with what was committed.
func compare(saw, committed []string) loss {
	var l loss
	times := map[string]int{}
	for _, s := range saw {
		times[s]++
		if times[s] > 1 {
			l.twice++
		}
	}
	for _, s := range committed {
		if times[s] == 0 {
			l.lost++
		}
		delete(times, s)
	}
	l.foreign = len(times)
	return l
}

// together lets followers read while others write, and afterwards until nothing new comes. It
// returns what each saw, and what was committed.
func (w world) together(t *testing.T, seed uint64, followers ...follower) (saw [][]string, committed []string) {
	t.Logf("seed %d", seed)
	saw = make([][]string, len(followers))
	var over atomic.Bool
	var wg sync.WaitGroup
	for i, follow := range followers {
		wg.Go(func() {
			for {
				last := over.Load() // read before the events: what follows is complete
				found, err := follow(t.Context())
				if err != nil {
					t.Errorf("follower %d: %v", i, err)
					return
				}
				saw[i] = append(saw[i], found...)
				if last && len(found) == 0 {
					return
				}
			}
		})
	}
	committed = w.write(t, seed)
	w.quiet(t)
	over.Store(true)
	wg.Wait()
	return saw, committed
}

// quiet waits until an event that is added now has settled. Then everything before it has settled
// too.
func (w world) quiet(t *testing.T) {
	start := w.now(t)
	w.add(t, "mark", "mark")
	for after := start; ; {
		found, next := w.read(t, after, []string{"mark"}, 1)
		if len(found) > 0 {
			return
		}
		after = next
		if t.Context().Err() != nil {
			t.Fatal("the mark has not settled")
		}
	}
}

// TestFollowersLoseNothing: transactions of different lengths commit in another order than they
// began. Followers by cursor lose no event and see none twice. All see them in the same order as a
// reader that reads them all again.
func TestFollowersLoseNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		start := w.now(t)
		another := w.Env
		another.DB, another.Skew = w.Open(t, 0)
		beside := newWorld(t, another)
		saw, committed := w.together(t, uint64(time.Now().UnixNano()), w.byCursor(start), beside.byCursor(start), w.byCursor(start))
		committed = append(committed, "mark")
		for i := range saw {
			if l := compare(saw[i], committed); l != (loss{}) {
				t.Errorf("follower %d: %+v of %d", i, l, len(committed))
			}
			if !slices.Equal(saw[i], saw[0]) {
				t.Errorf("followers 0 and %d saw another order", i)
			}
		}
		again, _ := w.settled(t, start, len(committed))
		if !slices.Equal(subjects(again), saw[0]) {
			t.Error("read again, the order is another")
		}
	})
}

// TestFollowingByIDLosesEvents: with the same writers, followers by id alone lose events. So the
// test above would detect a loss.
func TestFollowingByIDLosesEvents(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnPostgres))
	for round := range 20 {
		saw, committed := w.together(t, uint64(round), w.byID(t))
		if l := compare(saw[0], committed); l.lost > 0 {
			t.Logf("round %d: lost %d of %d", round, l.lost, len(committed))
			return
		}
	}
	t.Error("20 rounds without a loss: the writers do not commit out of order, and the test above shows nothing")
}
