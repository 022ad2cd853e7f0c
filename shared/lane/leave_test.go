package lane_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

const (
	leavers  = 8
	ofLeaver = 4 // connections that they share
)

// TestCallersLeaveAtRandom (R36): callers leave at random instants of their reads, writes,
// transactions and holds. The others continue, no two callers hold the same lane, what an error
// says about a write is true, and nothing is left over.
func TestCallersLeaveAtRandom(t *testing.T) {
	calls := promise.Figure(2_400, 100_000)
	if testing.Short() && !promise.Full() {
		calls = 400
	}
	seed := promise.Seed(t)
	onEach(t, func(t *testing.T, w world) {
		proof := promise.Of(t, "R36", "calls left at random instants, on "+w.Engine, "0 connections, lanes, goroutines, transactions left")
		goroutines := runtime.NumGoroutine()
		l := &leaving{world: w, name: "leave-" + string(w.Workspace[:8])}
		if w.Engine != dbtest.OnSQLite { // only one handle may open a file
			l.URL += "&application_name=" + l.name
			l.DB, l.Skew = l.Open(t, ofLeaver)
			l.s = open(t, l.DB)
		}
		l.usual = make([]atomic.Int64, len(waysToLeave))
		for way := range l.usual {
			l.usual[way].Store(int64(10 * time.Millisecond))
		}
		var wg sync.WaitGroup
		for i := range leavers {
			c := l.caller(seed, i)
			wg.Go(func() {
				for range calls / leavers {
					if c.call(t); t.Failed() {
						return
					}
				}
				c.settled(t)
			})
		}
		wg.Wait()
		l.nothingLeft(t, goroutines)
		proof.Tell("%d calls, %d left, %d of them with an unknown outcome; nothing left behind", calls, l.left.Load(), l.unknown.Load())
		if left := int(l.left.Load()); left < calls/10 || left > calls*9/10 {
			t.Errorf("%d of %d calls were left: the instants are not those of the calls", left, calls)
		}
	})
}

// leaving is the state that all callers share.
type leaving struct {
	world
	name string // the application name, as Postgres knows its connections

	usual         []atomic.Int64  // by way, in nanoseconds: about half of the calls take longer
	inside        [2]atomic.Int32 // number of callers that believe they hold the lane
	left, unknown atomic.Int64
}

var left = [2]lane.Name{"x", "y"}

// caller is a client that leaves calls early. It has its own register.
type caller struct {
	*leaving
	random   *rand.Rand
	register string
	last     int             // the value written last
	stands   string          // what the register holds
	maybe    map[string]bool // values that it may hold as well
}

func (l *leaving) caller(seed uint64, i int) *caller {
	return &caller{
		leaving: l, random: rand.New(rand.NewPCG(seed, uint64(i))), register: fmt.Sprintf("%s-%d", register, i), maybe: map[string]bool{},
	}
}

var waysToLeave = []func(*caller, context.Context) error{
	(*caller).read, (*caller).write, (*caller).transact, (*caller).hold, (*caller).do, (*caller).all,
}

// call is one call that the caller may leave, by a deadline or by cancelling.
func (c *caller) call(t *testing.T) {
	way := c.random.IntN(len(waysToLeave))
	instant := time.Duration(c.random.Int64N(2 * c.usual[way].Load()))
	ctx, cancel := context.WithTimeout(t.Context(), instant)
	if c.random.IntN(2) == 0 {
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		defer time.AfterFunc(instant, cancel).Stop()
	}
	defer cancel()
	err := waysToLeave[way](c, ctx)
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		err = nil
	}
	if err == nil {
		c.shift(way, 4, 5)
		return
	}
	c.left.Add(1)
	c.shift(way, 5, 4)
	_, limited := ctx.Deadline() // work under a lane ends before its deadline
	if ctx.Err() == nil && !limited || !errors.Is(err, ctx.Err()) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, db.ErrUncertain) {
		t.Errorf("way %d: a caller whose end is %v got %v", way, ctx.Err(), err)
	}
}

// shift scales the usual duration.
func (c *caller) shift(way int, times, of int64) {
	usual := &c.usual[way]
	usual.Store(min(int64(time.Second), max(int64(time.Microsecond), usual.Load()*times/of)))
}

func (c *caller) read(ctx context.Context) error {
	var fence int64
	var value string
	err := c.DB.One(ctx, c.Workspace, []any{&fence, &value}, c.q.Get, c.register)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	if err == nil {
		return c.is(value)
	}
	return err
}

// is checks that the register may hold the value that was read.
func (c *caller) is(value string) error {
	if value != c.stands && !c.maybe[value] {
		return fmt.Errorf("%s holds %q, want %q or one of %d", c.register, value, c.stands, len(c.maybe))
	}
	return nil
}

// wrote records the outcome of writing a value.
func (c *caller) wrote(value string, err error) error {
	switch {
	case err == nil:
		c.stands = value
	case errors.Is(err, db.ErrUncertain):
		c.unknown.Add(1)
		c.maybe[value] = true // it may still be done, after the next write
	}
	return err
}

func (c *caller) next() string {
	c.last++
	return fmt.Sprint(c.last)
}

func (c *caller) write(ctx context.Context) error {
	value := c.next()
	_, err := c.DB.Exec(ctx, c.Workspace, c.q.Put, c.register, 1, value)
	return c.wrote(value, err)
}

func (c *caller) transact(ctx context.Context) error {
	value := c.next()
	undone := errors.New("undone")
	undo := c.random.IntN(4) == 0
	err := c.DB.Tx(ctx, c.Workspace, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.Each(ctx, func(scan db.Scan) error {
			var fence int64
			var value string
			if err := scan(&fence, &value); err != nil {
				return err
			}
			return c.is(value)
		}, c.q.Get, c.register); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, c.q.Put, c.register, 1, value); err != nil || !undo {
			return err
		}
		return undone
	})
	if errors.Is(err, undone) {
		return nil
	}
	return c.wrote(value, err)
}

// hold acquires a lane and releases it. A release that was left is repeated, because its outcome is
// unknown.
func (c *caller) hold(ctx context.Context) error {
	i := c.random.IntN(len(left))
	h, err := c.s.Acquire(ctx, c.request(left[i]))
	if err != nil {
		return err
	}
	err = c.within(i)
	c.inside[i].Add(-1)
	rerr := c.s.Release(ctx, h)
	if rerr != nil {
		again := c.s.Release(context.WithoutCancel(ctx), h)
		if again != nil && !errors.Is(again, lane.ErrLost) {
			return fmt.Errorf("the release once more: %w", again)
		}
	}
	return errors.Join(err, rerr)
}

// within enters lanes that nobody else may be in.
func (c *caller) within(lanes ...int) (err error) {
	for _, i := range lanes {
		if n := c.inside[i].Add(1); n != 1 {
			err = fmt.Errorf("%d have lane %s", n, left[i])
		}
	}
	return err
}

func (c *caller) do(ctx context.Context) error {
	i := c.random.IntN(len(left))
	value := c.next()
	return c.s.Do(ctx, c.request(left[i]), lane.Wait{Limit: 5 * time.Millisecond}, func(ctx context.Context, h *lane.Hold) error {
		defer c.inside[i].Add(-1)
		if err := c.within(i); err != nil {
			return err
		}
		return c.wrote(value, c.s.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error {
			tx.Later().Exec(c.q.Put, c.register, h.Fence, value)
			return nil
		}))
	})
}

func (c *caller) all(ctx context.Context) error {
	held, err := c.s.AcquireAll(ctx, c.request(left[0]), c.request(left[1]))
	if err != nil {
		return err
	}
	err = c.within(0, 1)
	for i, h := range held {
		c.inside[i].Add(-1)
		if rerr := c.s.Release(context.WithoutCancel(ctx), h); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

// settled checks that the register holds what the last answers said.
func (c *caller) settled(t *testing.T) {
	if err := c.read(t.Context()); err != nil {
		t.Error(err)
	}
}

// nothingLeft fails unless the lanes are free, all connections work at once, no transaction is
// open, and no goroutine is left.
func (l *leaving) nothingLeft(t *testing.T, goroutines int) {
	t.Helper()
	if _, err := l.s.Settle(t.Context(), nothingElse); err != nil { // gives back what could not be in time
		t.Error(err)
	}
	l.mustBeFree(t, left[:]...)
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var together, wg sync.WaitGroup
	together.Add(ofLeaver)
	for range ofLeaver {
		wg.Go(func() {
			err := l.DB.Each(soon, l.Workspace, func(db.Scan) error {
				together.Done()
				return meet(soon, &together)
			}, l.q.Get, register+"-0")
			if err != nil {
				t.Errorf("a read afterwards: %v", err)
			}
		})
	}
	wg.Wait()
	if _, err := l.DB.Exec(soon, l.Workspace, l.q.Put, register, 1, "afterwards"); err != nil {
		t.Errorf("a write afterwards: %v", err)
	}
	if l.Engine != dbtest.OnSQLite {
		l.noTransactionLeft(soon, t)
	}
	l.eventually(t, "goroutines", func() (string, bool) {
		now := runtime.NumGoroutine()
		return fmt.Sprintf("%d, and before %d", now, goroutines), now <= goroutines+2*ofLeaver
	})
}

// meet waits for all others of a group until ctx ends.
func meet(ctx context.Context, group *sync.WaitGroup) error {
	met := make(chan struct{})
	go func() { group.Wait(); close(met) }()
	select {
	case <-met:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *leaving) eventually(t *testing.T, what string, look func() (string, bool)) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		said, ok := look()
		if ok {
			return
		}
		if time.Now().After(until) {
			t.Errorf("%s left behind: %s", what, said)
			return
		}
	}
}

// noTransactionLeft checks the server's connections as a user who may see all of them. It first
// checks that it would notice a transaction.
func (l *leaving) noTransactionLeft(ctx context.Context, t *testing.T) {
	t.Helper()
	conn := func(url string) *pgx.Conn {
		c, err := pgx.Connect(ctx, url)
		check(t, err)
		t.Cleanup(func() { check(t, c.Close(context.WithoutCancel(ctx))) })
		return c
	}
	admin, one := conn(dbtest.Servers(t).PostgresURL), conn(l.URL)
	busy := func(want int) func() (string, bool) {
		return func() (string, bool) {
			var conns, busy int
			err := admin.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity WHERE application_name = $1`,
				l.name).Scan(&conns, &busy)
			return fmt.Sprintf("%d connections, %d of them in a transaction, %v", conns, busy, err), err == nil && busy == want && conns <= ofLeaver+1
		}
	}
	l.eventually(t, "transactions", busy(0))
	_, err := one.PgConn().Exec(ctx, "BEGIN").ReadAll()
	check(t, err)
	l.eventually(t, "a transaction that was begun", busy(1))
	_, err = one.PgConn().Exec(ctx, "ROLLBACK").ReadAll()
	check(t, err)
}
