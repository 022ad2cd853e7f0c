package dbtest

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestThePoolIsOurs: a test goes on while the tests of other packages keep every server connection
// of their pool busy.
func TestThePoolIsOurs(t *testing.T) {
	at, err := url.Parse(migrated(t).pooled)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.User(loginRole)
	for range 2 {
		conn, err := pgx.Connect(t.Context(), at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), "BEGIN; SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	New(t, OnPgBouncer)
}
