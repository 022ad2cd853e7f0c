package lane_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

const tick = 10 * time.Minute

// A lock is the interface that clients of a history use: the real lock or a broken one.
type lock interface {
	acquire(ctx context.Context, r lane.Request, called func()) (held, error)
	renew(ctx context.Context, h held, ttl time.Duration) (until time.Time, err error)
	release(ctx context.Context, h held) error
	// write writes to what the lane protects, and returns until when it also renewed the hold.
	write(ctx context.Context, h held, slow bool, value string) (until time.Time, err error)
}

// held is a hold and the TTL with which its proofs renew it.
type held struct {
	*lane.Hold
	until time.Time
	ttl   time.Duration
}

// real is the lock of this package.
type real struct {
	world
	register string
}

func (l real) acquire(ctx context.Context, r lane.Request, called func()) (held, error) {
	called()
	h, err := l.s.Acquire(ctx, r)
	if err != nil {
		return held{}, err
	}
	return held{h, h.Until(), r.TTL}, nil
}

func (l real) renew(ctx context.Context, h held, ttl time.Duration) (time.Time, error) {
	err := l.s.Renew(ctx, h.Hold, ttl)
	return h.Until(), err
}

func (l real) release(ctx context.Context, h held) error { return l.s.Release(ctx, h.Hold) }

func (l real) write(ctx context.Context, h held, slow bool, value string) (time.Time, error) {
	err := l.s.InHold(ctx, h.Hold, func(ctx context.Context, tx lane.Tx) error {
		if slow {
			if err := tx.Each(ctx, ignore, l.q.Get, l.register); err != nil {
				return err
			}
			l.Skew.Advance(tick)
		}
		tx.Later().Exec(l.q.Put, l.register, h.Fence, value)
		return nil
	})
	return h.Until(), err
}

func ignore(db.Scan) error { return nil }

// chapter is one history while it is recorded.
type chapter struct {
	lane     lane.Name
	register string
	postgres bool
	skew     *db.Skew
	base     time.Time     // the clock at the start
	offset   time.Duration // the skew at the start
	moments  atomic.Int64
	mu       sync.Mutex
	ops      []porcupine.Operation
}

// shape returns the number of calls and clients of a history. Most histories are short, because a
// flaw shows in few calls; every twentieth is long.
func shape(number uint64) (calls, clients int) {
	if number%20 == 0 {
		return 60, 8
	}
	return 6 + int(number%5), 2 + int(number%7)
}

// history runs clients on a new lane and returns the operations they saw. worlds are one world,
// seen by several processes under one clock.
func history(worlds []world, seed, number uint64, of func(w world, register string) lock) ([]porcupine.Operation, error) {
	first := worlds[0]
	c := &chapter{
		lane: lane.Name(fmt.Sprintf("h%d", number)), register: fmt.Sprintf("r%d", number),
		postgres: first.DB.Dialect() == db.Postgres,
		skew:     first.Skew, base: time.Now().Add(first.Skew.Offset()), offset: first.Skew.Offset(),
	}
	calls, clients := shape(number)
	errs := make(chan error, clients)
	for i := range clients {
		w := worlds[i%len(worlds)]
		p := &client{
			chapter: c, w: w, lock: of(w, c.register), id: i, random: rand.New(rand.NewPCG(seed, number<<8|uint64(i))),
			name: lane.Holder(fmt.Sprintf("client-%d", i/2)), // every name is used twice
		}
		go func() { errs <- p.run((calls + i) / clients) }()
	}
	var err error
	for range clients {
		err = errors.Join(err, <-errs)
	}
	return c.ops, err
}

func (c *chapter) clock() int64 { return int64((c.skew.Offset() - c.offset) / tick) }

// reading returns the clock that the end of a hold reveals.
func (c *chapter) reading(end time.Time, ttl time.Duration) int64 {
	return int64(end.Add(-ttl).Sub(c.base).Round(tick) / tick)
}

// client is one client of a history.
type client struct {
	*chapter
	w      world
	lock   lock
	id     int
	name   lane.Holder
	random *rand.Rand
	holds  []held // also holds that are over
	writes int
}

func (p *client) run(ops int) error {
	for range ops {
		if p.random.IntN(6) == 0 {
			p.skew.Advance(time.Duration(1+p.random.IntN(3)) * tick)
		}
		if err := p.act(context.Background()); err != nil {
			return fmt.Errorf("%s, client %d: %w", p.lane, p.id, err)
		}
	}
	return nil
}

// act makes one call. The seed and the client's holds choose it.
func (p *client) act(ctx context.Context) error {
	choice := p.random.IntN(20)
	ttl := time.Duration(15+10*p.random.IntN(4)) * time.Minute
	slow := p.random.IntN(4) == 0
	var h held
	if len(p.holds) > 0 {
		h = p.holds[len(p.holds)-1]
		if p.random.IntN(5) == 0 {
			h = p.holds[p.random.IntN(len(p.holds))]
		}
	}
	switch {
	case choice < 2:
		return p.read(ctx)
	case choice < 4:
		return p.look(ctx)
	case choice == 4 && p.random.IntN(2) == 0:
		return p.force(ctx)
	case h.Hold == nil || choice < 9:
		return p.acquire(ctx, uuid.UUID(p.bytes()).String(), ttl)
	case choice == 9:
		return p.acquire(ctx, h.Token, ttl) // as after a lost answer
	case choice < 12:
		return p.renew(ctx, h, ttl)
	case choice < 15:
		return p.release(ctx, h)
	}
	return p.write(ctx, h, slow)
}

func (p *client) bytes() (b [16]byte) {
	for i := range b {
		b[i] = byte(p.random.Uint32())
	}
	return b
}

// record makes a call and records it. do calls began when the call really begins, if it does
// something else before.
func (p *client) record(c call, do func(began func()) (answer, error)) error {
	var beginning int64
	began := func() { c.since, beginning = p.clock(), p.moments.Add(1) }
	began()
	a, err := do(began)
	a.until, a.frozen = p.clock(), p.postgres
	end := p.moments.Add(1)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(c, a), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops = append(p.ops, porcupine.Operation{ClientId: p.id, Input: c, Output: a, Call: beginning, Return: end})
	return nil
}

func minutes(d time.Duration) int64 { return int64(d / time.Minute) }

func (p *client) acquire(ctx context.Context, token string, ttl time.Duration) error {
	return p.record(call{verb: doAcquire, token: token, ttl: minutes(ttl)}, func(began func()) (a answer, _ error) {
		r := lane.Request{Workspace: p.w.Workspace, Lane: p.lane, Holder: p.name, TTL: ttl, Token: token}
		h, err := p.lock.acquire(ctx, r, began)
		if busy, ok := errors.AsType[*lane.BusyError](err); ok {
			if p.postgres { // on SQLite a second statement read it later
				a.fence = busy.Fence
			}
			return a, nil
		}
		if err != nil {
			return a, err
		}
		p.holds = append(p.holds, h)
		return answer{yes: true, fence: h.Fence, pinned: true, at: p.reading(h.until, ttl)}, nil
	})
}

func (p *client) renew(ctx context.Context, h held, ttl time.Duration) error {
	return p.record(call{verb: doRenew, token: h.Token, ttl: minutes(ttl)}, func(func()) (answer, error) {
		until, err := p.lock.renew(ctx, h, ttl)
		if err != nil {
			return answer{}, unlessLost(err)
		}
		return answer{yes: true, pinned: true, at: p.reading(until, ttl)}, nil
	})
}

func (p *client) release(ctx context.Context, h held) error {
	return p.record(call{verb: doRelease, token: h.Token}, func(func()) (answer, error) {
		err := p.lock.release(ctx, h)
		return answer{yes: err == nil}, unlessLost(err)
	})
}

func (p *client) write(ctx context.Context, h held, slow bool) error {
	p.writes++
	value := fmt.Sprintf("%d.%d", p.id, p.writes)
	return p.record(call{verb: doWrite, token: h.Token, ttl: minutes(h.ttl), value: value}, func(func()) (answer, error) {
		until, err := p.lock.write(ctx, h, slow, value)
		if err != nil {
			return answer{}, unlessLost(err)
		}
		a := answer{yes: true}
		if !until.IsZero() {
			a.renewed, a.pinned, a.at = true, true, p.reading(until, h.ttl)
		}
		return a, nil
	})
}

func unlessLost(err error) error {
	if errors.Is(err, lane.ErrLost) {
		return nil
	}
	return err
}

func (p *client) force(ctx context.Context) error {
	return p.record(call{verb: doForce}, func(func()) (a answer, err error) {
		err = p.w.DB.Tx(ctx, p.w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			a.yes, err = p.w.s.ForceRelease(ctx, tx, p.lane)
			return err
		})
		return a, err
	})
}

func (p *client) look(ctx context.Context) error {
	return p.record(call{verb: doLook}, func(func()) (answer, error) {
		i, err := p.w.s.Peek(ctx, p.w.Workspace, p.lane)
		if errors.Is(err, db.ErrNoRows) {
			return answer{}, nil
		}
		a := answer{yes: i.Held(), fence: i.Fence}
		if a.yes {
			a.pinned, a.at = true, p.reading(i.ExpiresAt, i.Remaining)
		}
		return a, err
	})
}

func (p *client) read(ctx context.Context) error {
	return p.record(call{verb: doRead}, func(func()) (a answer, err error) {
		err = p.w.DB.One(ctx, p.w.Workspace, []any{new(int64), &a.value}, p.w.q.Get, p.register)
		if errors.Is(err, db.ErrNoRows) {
			err = nil
		}
		return a, err
	})
}

// legal checks a history. When the history is not legal, text shows it.
func legal(ops []porcupine.Operation) (ok bool, text string) {
	if porcupine.CheckOperations(leaseRegister, ops) {
		return true, ""
	}
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var lines []string
	for _, op := range ops {
		lines = append(lines, fmt.Sprintf("%3d–%3d client %d: %s", op.Call, op.Return, op.ClientId, describe(op.Input.(call), op.Output.(answer))))
	}
	return false, strings.Join(lines, "\n")
}

// TestHistoriesOfALaneAreLegal (R1): whatever clients do concurrently, a lane behaves like one
// lease register whose fence only rises.
func TestHistoriesOfALaneAreLegal(t *testing.T) {
	histories := 1_000
	switch {
	case promise.Full():
		histories = 10_000
	case testing.Short():
		histories = 100
	}
	onEach(t, func(t *testing.T, w world) {
		proof := promise.Of(t, "R1", "histories of concurrent clients on "+w.Engine+", checked as a lease register", "0 illegal")
		mustBeLegal(t, histories, concurrently(t, w.Engine), concurrently(t, w.Engine))
		proof.Tell("0 of %d", histories)
	})
}

// concurrently returns a new world with connections for many clients.
func concurrently(t *testing.T, engine string) []world {
	t.Helper()
	w := newWorld(t, dbtest.New(t, engine))
	w.DB, w.Skew = w.Open(t, 8)
	w.s = open(t, w.DB)
	return []world{w}
}

func TestHistoriesOfTwoProcessesOnOneFileAreLegal(t *testing.T) {
	histories := 100
	if testing.Short() {
		histories = 10
	}
	worlds := concurrently(t, dbtest.OnSQLite)
	second := worlds[0]
	var err error
	second.DB, err = sqlite.Open(t.Context(), sqlite.Config{Path: second.URL, Skew: second.Skew})
	if err != nil {
		t.Fatal(err)
	}
	defer second.DB.Close()
	second.s = open(t, second.DB)
	mustBeLegal(t, histories, append(worlds, second))
}

// mustBeLegal runs the histories, in all worlds concurrently, and checks each.
func mustBeLegal(t *testing.T, histories int, worlds ...[]world) {
	t.Helper()
	seed, start := rand.Uint64(), time.Now()
	t.Logf("seed %d", seed)
	var next, calls atomic.Uint64
	var wg sync.WaitGroup
	for _, mine := range worlds {
		wg.Go(func() {
			for n := next.Add(1); n <= uint64(histories) && !t.Failed(); n = next.Add(1) {
				h, err := history(mine, seed, n, func(w world, register string) lock { return real{w, register} })
				if err != nil {
					t.Errorf("history %d: %v", n, err)
				}
				if ok, text := legal(h); !ok {
					t.Errorf("history %d is not legal:\n%s", n, text)
				}
				calls.Add(uint64(len(h)))
			}
			mine[0].Skew.Advance(30 * 24 * time.Hour)
			if _, err := mine[0].s.Sweep(context.Background(), mine[0].Workspace); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d histories of %d calls in all, in %v", histories, calls.Load(), time.Since(start).Round(time.Millisecond))
}

// TestOfManyClientsOneWins (R1): of many clients that want a free lane, one gets it, even when
// several have the same name.
func TestOfManyClientsOneWins(t *testing.T) {
	const clients, lanes = 64, 10
	onEach(t, func(t *testing.T, w world) {
		w = concurrently(t, w.Engine)[0]
		once := func(name lane.Name) {
			t.Helper()
			start, done := make(chan struct{}), make(chan any, clients)
			for i := range clients {
				go func() {
					r := w.request(name)
					r.Holder = lane.Holder(fmt.Sprintf("client-%d", i/2))
					<-start
					h, err := w.s.Acquire(context.Background(), r)
					switch busy, isBusy := errors.AsType[*lane.BusyError](err); {
					case err == nil:
						done <- h
					case isBusy:
						done <- busy.Info
					default:
						done <- err
					}
				}()
			}
			close(start)
			var winners []*lane.Hold
			var losers []lane.Info
			for range clients {
				switch got := (<-done).(type) {
				case *lane.Hold:
					winners = append(winners, got)
				case lane.Info:
					losers = append(losers, got)
				case error:
					t.Error(got)
				}
			}
			if len(winners) != 1 {
				t.Fatalf("%s: %d of %d won", name, len(winners), clients)
			}
			for _, i := range losers {
				if i.Fence != winners[0].Fence || i.Holder != winners[0].Holder {
					t.Errorf("%s: %s won with fence %d, and one was refused by %+v", name, winners[0].Holder, winners[0].Fence, i)
				}
			}
		}
		for n := range lanes {
			name := lane.Name(fmt.Sprintf("lane-%d", n))
			once(name) // never used
			w.Skew.Advance(tick)
			once(name) // expired
			w.force(t, name)
			once(name) // released
		}
	})
}
