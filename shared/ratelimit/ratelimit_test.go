package ratelimit_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
)

// taker is a store and a workspace.
type taker struct {
	dbtest.Env
	*ratelimit.Store
}

func newTaker(t testing.TB, e dbtest.Env) taker {
	t.Helper()
	l, err := ratelimit.New(e.DB)
	if err != nil {
		t.Fatal(err)
	}
	return taker{e, l}
}

func (k taker) take(t testing.TB, key string, n int, l ratelimit.Limit) (bool, time.Duration) {
	t.Helper()
	ok, wait, err := k.Take(t.Context(), k.Workspace, key, n, l)
	if err != nil {
		t.Fatal(err)
	}
	return ok, wait
}

func (k taker) must(t testing.TB, want bool, key string, n int, l ratelimit.Limit) time.Duration {
	t.Helper()
	ok, wait := k.take(t, key, n, l)
	if ok != want || ok != (wait == 0) {
		t.Fatalf("take %d of %s: %t, again after %s", n, key, ok, wait)
	}
	return wait
}

// buckets counts the stored buckets.
func (k taker) buckets(t testing.TB) (n int) {
	t.Helper()
	var q struct{ CountBuckets db.Query }
	dbtest.Load(t, "testdata/limits", &q)
	if err := k.DB.One(t.Context(), k.Workspace, []any{&n}, q.CountBuckets); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTake(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		k := newTaker(t, e)
		slow := ratelimit.Limit{PerSecond: 0.01, Burst: 10} // a token takes 100 s to return
		k.must(t, true, "a", 1, slow)
		k.must(t, true, "a", 9, slow)
		if wait := k.must(t, false, "a", 1, slow); wait < 90*time.Second || wait > 100*time.Second {
			t.Errorf("for one: after %s", wait)
		}
		if wait := k.must(t, false, "a", 10, slow); wait < 990*time.Second || wait > 1000*time.Second {
			t.Errorf("for all: after %s", wait)
		}
		k.must(t, true, "b", 10, slow) // another bucket
		e.Skew.Advance(301 * time.Second)
		k.must(t, false, "a", 4, slow) // a refused request costs nothing
		k.must(t, true, "a", 3, slow)
		k.must(t, false, "a", 1, slow)
		e.Skew.Advance(time.Hour) // no more than the burst returns
		k.must(t, true, "a", 10, slow)
		k.must(t, false, "a", 1, slow)
		// A bucket that owes more than it holds, because its limit was lowered or the clock went
		// back, counts as empty.
		if wait := k.must(t, false, "a", 1, ratelimit.Limit{PerSecond: 1, Burst: 2}); wait > time.Second {
			t.Errorf("of a lower limit: after %s", wait)
		}
		for _, wrong := range []struct {
			n int
			ratelimit.Limit
		}{{0, slow}, {-1, slow}, {11, slow}, {1, ratelimit.Limit{Burst: 1}}, {1, ratelimit.Limit{PerSecond: -1, Burst: 1}}} {
			if _, _, err := k.Take(t.Context(), k.Workspace, "a", wrong.n, wrong.Limit); err == nil {
				t.Errorf("%+v: no error", wrong)
			}
		}
	})
}

func TestTakeIsOneStatement(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		k := newTaker(t, e)
		for _, ok := range []bool{true, false} {
			before := k.DB.Stats()
			k.must(t, ok, "a", 1, ratelimit.Limit{PerSecond: 0.01, Burst: 1})
			if got, want := k.DB.Stats().Sub(before), (db.Stats{Statements: 1, RoundTrips: 1}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	})
}

// TestManyTakers: concurrent takers get no more than the burst plus the tokens that returned.
func TestManyTakers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		k := newTaker(t, e)
		limit := ratelimit.Limit{PerSecond: 50, Burst: 20}
		var got, asked atomic.Int64
		var wg sync.WaitGroup
		begun := time.Now()
		for n := range 100 {
			wg.Go(func() {
				for range 5 {
					tokens := 1 + n%3
					ok, _, err := k.Take(t.Context(), k.Workspace, "a", tokens, limit)
					if err != nil {
						t.Error(err)
						return
					}
					asked.Add(int64(tokens))
					if ok {
						got.Add(int64(tokens))
					}
				}
			})
		}
		wg.Wait()
		most := int64(limit.PerSecond*time.Since(begun).Seconds()) + int64(limit.Burst)
		if got.Load() > most || got.Load() < int64(limit.Burst)-2 {
			t.Errorf("%d of %d tokens in %s, want %d at most", got.Load(), asked.Load(), time.Since(begun), most)
		}
	})
}

func TestPurge(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		k := newTaker(t, e)
		k.must(t, true, "old", 1, ratelimit.API)
		e.Skew.Advance(time.Hour + time.Minute)
		k.must(t, true, "new", 1, ratelimit.API)
		var b db.Batch
		k.Purge(&b)
		if err := k.DB.Do(t.Context(), k.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		if n := k.buckets(t); n != 1 {
			t.Errorf("%d buckets are left", n)
		}
	})
}
