package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// conn is a connection of the pool.
type conn struct {
	*pgconn.PgConn
	statements
	released time.Time // zero: never
}

// pooled is a connection that was taken from the pool.
type pooled = puddle.Resource[*conn]

const (
	// lifetime is the age from which a connection is not used again. A server may have got a successor.
	lifetime = time.Hour
	// disconnectTimeout limits the goodbye to a server.
	disconnectTimeout = 15 * time.Second
)

// connect makes a connection for the pool. It goes on when the caller that needs the connection leaves.
func (e *engine) connect(ctx context.Context) (*conn, error) {
	c, err := pgconn.ConnectConfig(ctx, e.config)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, e.silence)
	defer cancel()
	direct, err := checkSchema(limited, c, e.need)
	if err != nil {
		_ = c.Close(ctx)
		return nil, err
	}
	return &conn{PgConn: c, statements: statements{direct: direct && !e.pooled.Load()}}, nil
}

func disconnect(c *conn) {
	ctx, cancel := context.WithTimeout(context.Background(), disconnectTimeout)
	defer cancel()
	_ = c.Close(ctx)
	select {
	case <-c.CleanupDone():
	case <-ctx.Done():
	}
}

// acquire takes a connection from the pool. It reports whether the connection was used before; such
// a connection may have died since.
func (e *engine) acquire(ctx context.Context) (c *pooled, reused bool, err error) {
	for {
		c, err = e.pool.Acquire(ctx)
		if err != nil {
			break
		}
		if e.isAlive(c) {
			return c, !c.Value().released.IsZero(), nil
		}
		c.Destroy()
	}
	if se, ok := errors.AsType[*db.SchemaError](err); ok {
		return nil, false, se
	}
	if errors.Is(err, db.ErrUnsafeRole) {
		return nil, false, db.ErrUnsafeRole
	}
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("connect to Postgres: %w", ctx.Err())
	}
	return nil, false, Unreachable(err)
}

// isAlive checks a connection that was idle: when a frozen sandbox wakes, the server may have
// closed its connections. The times are the wall's, because the monotonic clock stops in a freeze.
func (e *engine) isAlive(c *pooled) bool {
	switch used := c.Value().released; {
	case used.IsZero():
		return true
	case time.Since(c.CreationTime().Round(0)) > lifetime:
		return false
	case time.Since(used).Abs() < e.idle:
		return true
	}
	//nolint:staticcheck // Ping would cost the round trip that this saves; what it misses, SafeToRetry catches.
	return c.Value().CheckConn() == nil
}

// release returns a connection to the pool. A closed one leaves the pool at once: pgx takes 15 s to
// close a connection to a server that does not answer, and nobody should wait for its place.
func (e *engine) release(c *pooled) {
	switch conn := c.Value(); {
	case conn.IsClosed():
		c.Hijack()
	case conn.forgot:
		e.pooled.Store(true)
		c.Destroy()
	case conn.IsBusy() || conn.TxStatus() != 'I' || conn.stale:
		c.Destroy()
	default:
		conn.released = wall()
		c.Release()
	}
}

// wall returns the time without a reading of the monotonic clock.
func wall() time.Time { return time.Now().Round(0) }

// forget drops all idle connections after one became silent, because they lead to the same server.
// It does not close them gracefully.
func (e *engine) forget() {
	for _, c := range e.pool.AcquireAllIdle() {
		conn := c.Value()
		c.Hijack()
		_ = conn.Conn().Close() // nobody uses it any more
	}
}
