package postgres

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/puddle/v2"
)

// While a sandbox is frozen, the monotonic clock stops. A connection that was used just before a freeze must not
// count as used just now: its server may have closed it, and what a write on it did would not be known.
func TestAFreezeCountsAsIdle(t *testing.T) {
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	config, err := pgconn.ParseConfig("host=localhost")
	if err != nil {
		t.Fatal(err)
	}
	made, err := pgconn.Construct(&pgconn.HijackedConn{
		Conn: near, Frontend: pgproto3.NewFrontend(near, near), TxStatus: 'I', Config: config,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{idle: time.Hour}
	e.pool, err = puddle.NewPool(&puddle.Config[*conn]{
		Constructor: func(context.Context) (*conn, error) {
			return &conn{PgConn: made, statements: statements{direct: true}}, nil
		},
		MaxSize: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := e.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := c.Value()
	of.begin()
	e.release(c)
	for what, at := range map[string]time.Time{"its release": of.released, "its first statement": of.since} {
		if at.IsZero() || strings.Contains(at.String(), " m=") {
			t.Errorf("the clock of %s stops in a freeze: %s", what, at)
		}
	}
}
