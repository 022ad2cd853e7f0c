package outbox_test

import (
	"context"
	"strings"
	"testing"

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

// Claims and reads of the due rows use the partial index, however many rows were sent before. The
// database is the test's own, since plans follow statistics that other tests would change.
func TestClaimsAreServedByAnIndex(t *testing.T) {
	g := dbtest.NewGrown(t)
	g.Exec(t, "ALTER TABLE outbox SET (autovacuum_enabled = off)")
	g.Fill(t, `INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, status, max_attempts, due_at, trace_id, sent_at, created_at, updated_at)
		 SELECT $1, gen_random_uuid(), 'message', 'test', 'key-' || i, 'order-' || i % 10, i, '{}', CASE WHEN i > 4980 THEN 'ready' ELSE 'sent' END,
		        5, lk_now(), 'co_test', CASE WHEN i <= 4980 THEN lk_now() END, lk_now(), lk_now()
		   FROM generate_series(1, 5000) i`)
	g.Exec(t, "ANALYZE outbox")
	for name, args := range map[string][]any{
		"outbox.Claim": {`["test"]`, `[]`, 1, "me", "00000000-0000-7000-8000-000000000001", 1000, "{}", "[]", "[]"},
		"outbox.Due":   {`["test"]`, 100},
	} {
		plan := g.Explain(t, name, args...).String()
		for _, index := range []string{"outbox_due", "outbox_open"} {
			if !strings.Contains(plan, `"`+index+`"`) {
				t.Errorf("%s does not go along %s: %s", name, index, plan)
			}
		}
		if strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s reads the whole table: %s", name, plan)
		}
	}
}
