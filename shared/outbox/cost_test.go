package outbox_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

func TestStatementsAndRoundTrips(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var c outbox.Claimed
		done := handler(func(context.Context, outbox.Claimed) error { return nil })
		for _, step := range []struct {
			what string
			want db.Stats
			do   func()
		}{
			{"enqueue", db.Stats{Statements: 1, RoundTrips: 1}, func() { w.enqueue(t, kick("a")) }},
			{"enqueue in order", db.Stats{Statements: 1, RoundTrips: 1}, func() { w.enqueue(t, ordered("b", "o", 1)) }},
			{"a look", db.Stats{Statements: 1, RoundTrips: 1}, func() { w.due(t, topic) }},
			{"claim", db.Stats{Statements: 1, RoundTrips: 1}, func() { c = w.claim(t, 1)[0] }},
			{"sent", db.Stats{Statements: 1, RoundTrips: 1}, func() {
				if err := w.s.Sent(t.Context(), c); err != nil {
					t.Error(err)
				}
			}},
			{"drain of one row", db.Stats{Statements: 3, RoundTrips: 3}, func() { w.drain(t, done) }}, // with a last empty claim
			{"idle drain", db.Stats{Statements: 1, RoundTrips: 1}, func() { w.drain(t, done) }},
		} {
			before := w.DB.Stats()
			step.do()
			if got := w.DB.Stats().Sub(before); got != step.want {
				t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
			}
		}
	})
}

// Claims and reads of the due rows use the partial index, however many rows were sent before.
func TestClaimsAreServedByAnIndex(t *testing.T) {
	e := dbtest.New(t, dbtest.OnPostgres)
	w := newWorld(t, e)
	for i := range 200 {
		id := w.enqueue(t, ordered(numbered(i), numbered(i/10), int64(i+1)))[0]
		if i > 20 {
			w.become(t, id, outbox.Sent)
		}
	}
	conn, err := pgx.Connect(t.Context(), e.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	queries, err := db.Parse(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]any{
		"outbox.Claim": {string(w.Workspace), `["test"]`, `[]`, 1, "me", "00000000-0000-7000-8000-000000000001", 1000, "{}", "[]"},
		"outbox.Due":   {string(w.Workspace), `["test"]`, 100},
	} {
		q := queries[slices.IndexFunc(queries, func(q db.Query) bool { return q.Name() == name })]
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, setting := range []string{"SELECT lk_enter('" + string(w.Workspace) + "')", "SET LOCAL enable_seqscan = off"} {
			if _, err := tx.Exec(t.Context(), setting); err != nil {
				t.Fatal(err)
			}
		}
		var plan json.RawMessage
		if err := tx.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+q.Text(db.Postgres), args...).Scan(&plan); err != nil {
			t.Fatal(err)
		}
		for _, index := range []string{"outbox_due", "outbox_open"} {
			if !strings.Contains(string(plan), `"`+index+`"`) {
				t.Errorf("%s does not go along %s: %s", name, index, plan)
			}
		}
		if strings.Contains(string(plan), "Seq Scan") {
			t.Errorf("%s reads the whole table: %s", name, plan)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
