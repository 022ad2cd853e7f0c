package ratelimit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
)

// clock is a process's clock together with the database's.
type clock struct {
	dbtest.Env
	mu sync.Mutex
	at time.Time
}

func newClock(e dbtest.Env) *clock { return &clock{Env: e, at: time.Unix(1_800_000_000, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	c.Skew.Advance(d)
}

func newLocal(t testing.TB, e dbtest.Env, c *clock) *ratelimit.Cache {
	return ratelimit.NewCache(newTaker(t, e).Store, c.now, slog.New(slog.DiscardHandler))
}

// at returns a Rate for a fixed limit.
func at(limit ratelimit.Limit) ratelimit.Rate {
	return func(*db.Batch) func() ratelimit.Limit { return func() ratelimit.Limit { return limit } }
}

// TestMostRequestsCostNoStatement: a busy caller costs few statements, and an occasional one few
// tokens.
func TestMostRequestsCostNoStatement(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		c := newClock(e)
		l := newLocal(t, e, c)
		before := e.DB.Stats().RoundTrips
		for n := range 800 {
			if ok, wait := l.Take(t.Context(), e.Workspace, "a", 1, at(ratelimit.API)); !ok {
				t.Fatalf("request %d: after %s", n, wait)
			}
		}
		if cost := e.DB.Stats().RoundTrips - before; cost > 12 {
			t.Errorf("800 requests cost %d round trips", cost)
		}
	})
	t.Run("now and then", func(t *testing.T) {
		e := dbtest.New(t, dbtest.OnSQLite)
		c := newClock(e)
		var many []*ratelimit.Cache // caches of as many processes
		for range 50 {
			many = append(many, newLocal(t, e, c))
		}
		for second := range 30 {
			for n, l := range many {
				if ok, wait := l.Take(t.Context(), e.Workspace, "a", 1, at(ratelimit.API)); !ok {
					t.Fatalf("second %d, process %d: half of what is allowed is refused for %s", second, n, wait)
				}
			}
			c.advance(time.Second)
		}
	})
}

func TestLocalRefuses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		c := newClock(e)
		l := newLocal(t, e, c)
		limit := ratelimit.Limit{PerSecond: 0.1, Burst: 3}
		l.Take(t.Context(), e.Workspace, "a", 1, at(limit)) // it learns the limit
		c.advance(time.Second)
		for range 3 {
			if ok, _ := l.Take(t.Context(), e.Workspace, "a", 1, at(limit)); !ok {
				t.Fatal("refused")
			}
		}
		before := e.DB.Stats().Statements
		if wait := l.Wait(e.Workspace, "a"); wait != 0 {
			t.Errorf("before it is known that there are no tokens: after %s", wait)
		}
		for range 100 { // a flood costs one statement
			if ok, wait := l.Take(t.Context(), e.Workspace, "a", 1, at(limit)); ok || wait <= 8*time.Second || wait > 10*time.Second {
				t.Fatalf("%t, after %s", ok, wait)
			}
		}
		if cost := e.DB.Stats().Statements - before; cost != 1 {
			t.Errorf("%d statements", cost)
		}
		if wait := l.Wait(e.Workspace, "a"); wait <= 8*time.Second || wait > 10*time.Second {
			t.Errorf("once it is known: after %s", wait)
		}
		if ok, _ := l.Take(t.Context(), e.Workspace, "b", 1, at(limit)); !ok {
			t.Error("another key is refused")
		}
		c.advance(10 * time.Second)
		if ok, wait := l.Take(t.Context(), e.Workspace, "a", 1, at(limit)); !ok {
			t.Errorf("when it is time: after %s", wait)
		}
		if wait := l.Wait(e.Workspace, "a"); wait != 0 {
			t.Errorf("when it is time: after %s", wait)
		}
	})
}

// TestLocalGoesByTheLimitThatIsSet: a new limit applies from the next time on that the store is
// asked. For a principal with few requests that is at once.
func TestLocalGoesByTheLimitThatIsSet(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		c := newClock(e)
		l := newLocal(t, e, c)
		granted := func(limit ratelimit.Limit, asked int) (n int) {
			for range asked {
				if ok, _ := l.Take(t.Context(), e.Workspace, "a", 1, at(limit)); ok {
					n++
				}
			}
			return n
		}
		few, many := ratelimit.Limit{PerSecond: 0.01, Burst: 5}, ratelimit.Limit{PerSecond: 10_000, Burst: 50_000}
		granted(few, 1)
		c.advance(time.Second)
		if n := granted(few, 100); n != 5 {
			t.Errorf("%d of 5", n)
		}
		c.advance(time.Hour)
		granted(many, 1)             // by the limit before, which is replaced then
		c.advance(100 * time.Second) // in which that token returns
		if n := granted(many, 20_000); n != 20_000 {
			t.Errorf("%d of 20,000", n)
		}
	})
}

// TestUnspentTokensLapse: unspent tokens are not kept. If many processes kept them, they would add
// up to more than a later burst.
func TestUnspentTokensLapse(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	c, slow := newClock(e), ratelimit.Limit{PerSecond: 1, Burst: 50} // a token takes longer than the test
	l, k := newLocal(t, e, c), newTaker(t, e)
	l.Take(t.Context(), e.Workspace, "a", 1, at(slow))
	c.advance(time.Minute)
	k.must(t, true, "a", slow.Burst, slow)
	if ok, _ := l.Take(t.Context(), e.Workspace, "a", 1, at(slow)); ok {
		t.Error("it had some left")
	}
}

// TestManyProcesses: many processes with many concurrent requests get no more than the limit.
func TestManyProcesses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		limit := ratelimit.Limit{PerSecond: 100, Burst: 300}
		const processes = 5
		var got atomic.Int64
		var wg sync.WaitGroup
		begun := time.Now()
		for range processes {
			l := ratelimit.NewCache(newTaker(t, e).Store, time.Now, slog.New(slog.DiscardHandler))
			for range 20 {
				wg.Go(func() {
					for range 20 {
						if ok, _ := l.Take(t.Context(), e.Workspace, "a", 1, at(limit)); ok {
							got.Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
		// The processes know the limit from their first token on.
		most := int64(limit.PerSecond*time.Since(begun).Seconds()) + int64(limit.Burst) + processes
		if got.Load() > most || got.Load() < int64(limit.Burst) {
			t.Errorf("%d in %s, want %d at most", got.Load(), time.Since(begun), most)
		}
	})
}

// TestAnOutageIsNoHole: while the store can't be asked, the limit applies to this process, with what it spent
// before. What passed meanwhile is taken from the bucket when the store answers again.
func TestAnOutageIsNoHole(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		var broken struct{ Broken db.Query }
		if err := db.Load(fstest.MapFS{"broken.sql": {Data: []byte("-- name: Broken\n-- global: it fails\nSELECT n FROM nothing;\n")}}, &broken); err != nil {
			t.Fatal(err)
		}
		limit, down := ratelimit.Limit{PerSecond: 1, Burst: 5}, false
		c := newClock(e)
		l := newLocal(t, e, c)
		passes := func(want int, when string) {
			t.Helper()
			got := 0
			for range 20 {
				ok, wait := l.TakeFirst(t.Context(), e.Workspace, "a", 1, limit, func(b *db.Batch) func() ratelimit.Limit {
					if down {
						b.Exec(broken.Broken)
					}
					return func() ratelimit.Limit { return limit }
				})
				if ok {
					got++
				} else if wait <= 0 || wait > 5*time.Second {
					t.Errorf("%s: refused for %v", when, wait)
				}
			}
			if got != want {
				t.Errorf("%s: %d requests passed, want %d", when, got, want)
			}
		}
		passes(5, "with a store")
		c.advance(2 * time.Second)
		down = true
		passes(2, "without one")
		c.advance(2 * time.Second)
		passes(2, "still without")
		down = false
		c.advance(time.Second)
		passes(1, "with one again")
	})
}

// TestLocalWithoutAStore: limits exist to keep the service available. When the store fails, requests
// pass within the limit, and the store is not asked for a while.
func TestLocalWithoutAStore(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	nowhere := db.Workspace(uuid.NewString()) // the store has no such workspace
	var out bytes.Buffer
	c := newClock(e)
	l := ratelimit.NewCache(newTaker(t, e).Store, c.now, slog.New(slog.NewTextHandler(&out, nil)))
	for range 100 {
		if ok, _ := l.Take(t.Context(), nowhere, "a", 1, at(ratelimit.API)); !ok {
			t.Fatal("refused")
		}
	}
	c.advance(2 * time.Second)
	l.Take(t.Context(), nowhere, "a", 1, at(ratelimit.API))
	if lines := strings.Count(out.String(), "level=WARN"); lines != 2 {
		t.Errorf("%d lines: %s", lines, out.String())
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	out.Reset()
	if ok, _ := l.Take(gone, e.Workspace, "b", 1, at(ratelimit.API)); !ok || out.Len() > 0 {
		t.Errorf("a caller that has left: %t, %s", ok, out.String())
	}
}

// TestKeysAreForgotten: keys come from outside, so not all are remembered for ever.
func TestKeysAreForgotten(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	l := newLocal(t, e, newClock(e))
	gone, cancel := context.WithCancel(t.Context())
	cancel() // so that the store is not asked
	for n := range 10_001 {
		l.Take(gone, e.Workspace, fmt.Sprint(n), 1, at(ratelimit.API))
	}
	if n := l.Keys(); n > 10_000 {
		t.Errorf("%d keys are remembered", n)
	}
}
