package approval_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

func TestStatementsAndRoundTrips(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var id string
		drain := func() { w.drain(t) }
		for _, step := range []struct {
			what string
			want db.Stats
			do   func()
		}{
			// The lane; its proof with settings and clock; the row with the commit; the release.
			{"request", db.Stats{Statements: 6, RoundTrips: 4}, func() { id = w.request(t, asked("note", `{"text":"a"}`)) }},
			// The row; its change; the kick and the log with the commit.
			{"approve", db.Stats{Statements: 4, RoundTrips: 3}, func() { w.approve(t, id) }},
			// A claim; the lane with row and settings; the skill's lane and its proof; one
			// transaction with all results and both releases; and the claim that finds no more
			// rows.
			{"a call in the database", db.Stats{Statements: 14, RoundTrips: 5}, drain},
			{"request and approve", db.Stats{Statements: 10, RoundTrips: 7}, func() { id = w.approved(t, "post", `{"text":"a"}`) }},
			// A claim; the lane with row and settings; the start; the result; the claim that finds
			// no more rows.
			{"a call outside", db.Stats{Statements: 12, RoundTrips: 5}, drain},
			{"request and reject", db.Stats{Statements: 8, RoundTrips: 6}, func() {
				id = w.request(t, asked("note", `{"text":"a"}`))
				if _, err := w.s.Reject(t.Context(), w.Workspace, id, ada, "no"); err != nil {
					t.Error(err)
				}
			}},
			{"nothing that is overdue", db.Stats{Statements: 1, RoundTrips: 2}, func() {
				if _, err := w.s.ExpireDue(t.Context(), w.Workspace); err != nil {
					t.Error(err)
				}
			}},
		} {
			before := w.DB.Stats()
			step.do()
			if got := w.DB.Stats().Sub(before); got != step.want {
				t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
			}
		}
	})
}
