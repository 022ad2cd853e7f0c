package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	network "github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

// quickly is much longer than a call without waiting takes, and shorter than pgx takes to close a
// connection to a server that does not answer.
const quickly = 10 * time.Second

// silence is longer than a call takes on a busy machine.
const silence = time.Second

// silentWorld returns a world with conns open connections through a proxy.
func silentWorld(t *testing.T, conns int32) (world, *network.Proxy) {
	t.Helper()
	w := newWorld(t, dbtest.OnPostgres, conns)
	p, err := network.Start(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	w.DB = open(t, postgres.Config{URL: p.URL, MaxConns: conns, Silence: silence})
	w.fill(t, int(conns))
	return w, p
}

// hush makes the peer of each open connection silent; new connections work.
func hush(p *network.Proxy) {
	p.Set(network.Fault{Kind: network.Swallow})
	p.Set(network.Fault{})
}

// TestSilentPeers: the peers of all open connections are silent. A call with nothing to commit is
// repeated on a new connection. A write reports within its own limit that its outcome is unknown.
// Nobody waits for the place of a silent connection.
func TestSilentPeers(t *testing.T) {
	proof := promise.Of(t, "R35", "silent peers under reads, writes and transactions", "each call ends within its limit and 5 s")
	const conns = 2
	w, p := silentWorld(t, conns)
	id := w.add(t, "a")
	for name, c := range map[string]struct {
		use  func(ctx context.Context) error
		want error
	}{
		"a write": {func(ctx context.Context) error {
			_, err := w.DB.Exec(ctx, w.Workspace, w.q.Rename, id, "a")
			return err
		}, db.ErrUncertain},
		"a read": {func(ctx context.Context) error {
			return w.DB.One(ctx, w.Workspace, []any{new(string)}, w.q.Agent, id)
		}, nil},
		"a transaction that begins": {func(ctx context.Context) error {
			return w.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, w.q.Rename, id, "a")
				return err
			})
		}, nil},
		"a transaction that goes on": {func(ctx context.Context) error {
			return w.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if err := tx.One(ctx, []any{new(string)}, w.q.Agent, id); err != nil {
					return err
				}
				hush(p)
				_, err := tx.Exec(ctx, w.q.Rename, id, "b")
				return err
			})
		}, db.ErrUnavailable},
		"a transaction that ends": {func(ctx context.Context) error {
			return w.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if err := tx.One(ctx, []any{new(string)}, w.q.Agent, id); err != nil {
					return err
				}
				hush(p)
				tx.Later().Exec(w.q.Rename, id, "a")
				return nil
			})
		}, db.ErrUncertain},
	} {
		t.Run(name, func(t *testing.T) {
			w.fill(t, conns)
			hush(p)
			ctx, cancel := context.WithTimeout(t.Context(), quickly)
			defer cancel()
			if err := c.use(ctx); !errors.Is(err, c.want) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			w.fillWithin(t, conns)
		})
	}
	w.is(t, id, "a")
	proof.Tell("each ended in time, and new connections serve")
}

// fillWithin is fill for callers that don't wait long.
func (w world) fillWithin(t *testing.T, conns int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), quickly)
	defer cancel()
	for range conns {
		if err := w.DB.Check(ctx); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}

// TestACallersDeadlineOnASilentPeer: a caller with a shorter deadline learns so, and delays nobody.
func TestACallersDeadlineOnASilentPeer(t *testing.T) {
	w, p := silentWorld(t, 1)
	id := w.add(t, "a")
	hush(p)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.DB.Exec(ctx, w.Workspace, w.q.Rename, id, "b"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	w.fillWithin(t, 1)
	w.is(t, id, "a")
}

// TestASilentPeerOfANewConnection: a server that becomes silent during the connect does not keep
// its place in the pool.
func TestASilentPeerOfANewConnection(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 1)
	p, err := network.Start(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	w.DB = open(t, postgres.Config{URL: p.URL, MaxConns: 1, Schema: migrations.Latest(), Silence: silence})
	p.At("lk_schema()", network.Fault{Kind: network.SwallowAnswers})
	ctx, cancel := context.WithTimeout(t.Context(), quickly)
	defer cancel()
	if err := w.DB.Check(ctx); !errors.Is(err, db.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("got %v", err)
	}
	w.fillWithin(t, 1)
}

// TestASilentWriteIsTheLast: after a write to a silent peer, no other connection that was open then
// is trusted. Otherwise each further write would wait in vain and not know its outcome.
func TestASilentWriteIsTheLast(t *testing.T) {
	const conns = 3
	w, p := silentWorld(t, conns)
	id := w.add(t, "a")
	w.fill(t, conns)
	hush(p)
	rename := func(to string) error {
		ctx, cancel := context.WithTimeout(t.Context(), quickly)
		defer cancel()
		_, err := w.DB.Exec(ctx, w.Workspace, w.q.Rename, id, to)
		return err
	}
	if err := rename("b"); !errors.Is(err, db.ErrUncertain) {
		t.Errorf("got %v", err)
	}
	for range conns {
		if err := rename("c"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	w.is(t, id, "c")
}

// TestEachStatementHasItsTime: each statement of a change gets its full time, however many are sent
// at once.
func TestEachStatementHasItsTime(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 1)
	d := open(t, postgres.Config{URL: w.URL, MaxConns: 1, Silence: 4 * time.Second})
	id := w.add(t, "a")
	var b db.Batch
	for range 3 {
		b.Exec(w.q.Sleep, 2)
	}
	b.Exec(w.q.Rename, id, "b")
	if err := d.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Error(err)
	}
	w.is(t, id, "b")
}

// TestAnIdleConnectionThatWasClosed: a connection that was closed while idle is detected before a
// write is sent on it, whose outcome would be unknown.
func TestAnIdleConnectionThatWasClosed(t *testing.T) {
	w := newWorld(t, dbtest.OnPostgres, 1)
	p, err := network.Start(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	w.DB = open(t, postgres.Config{URL: p.URL, MaxConns: 1, Idle: time.Nanosecond})
	id := w.add(t, "a")
	p.HangUp()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Rename, id, "b"); err != nil {
		t.Error(err)
	}
	w.is(t, id, "b")
}
