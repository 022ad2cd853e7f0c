package heal_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// An execution is silent only if all executions below it are silent too, at any depth, also in
// threads.
func TestAGrandchildThatWorksKeepsItsElders(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		runs, err := execution.New(w.DB)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := outbox.New(w.DB, ids, func() float64 { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		threads, err := thread.New(w.DB, runs, rows, ids, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		begin := func(parent string, timeout time.Duration) string {
			t.Helper()
			e := execution.Execution{ID: ids(), Agent: "a", Surface: trace.Worker, Trace: "wk_0mh8c1v2q_a7x2p1k9d4", Parent: parent, Timeout: timeout}
			if err := w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := runs.Begin(ctx, tx, e, parent != ""); return err }); err != nil {
				t.Fatal(err)
			}
			return e.ID
		}
		parent := begin("", 10*time.Minute)
		child := begin(parent, 0)
		grandchild := begin(child, 0)
		th, err := threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: "log", Address: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		// the first look, and the check under the lock
		is := func(what string, want bool) {
			t.Helper()
			var b db.Batch
			found, silent := w.s.SilentNow(&b), false
			if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
			err := w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
				silent, err = w.s.Silent(ctx, tx, parent)
				return err
			})
			if slices.Contains(*found, parent) != want || silent != want || err != nil {
				t.Errorf("%s: listed %v, silent %v, %v", what, *found, silent, err)
			}
		}
		works := func(id string) {
			t.Helper()
			if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Touch, id); err != nil {
				t.Fatal(err)
			}
		}
		w.Skew.Advance(9 * time.Minute)
		is("in its time", false)
		works(grandchild)
		w.Skew.Advance(9 * time.Minute)
		is("a grandchild has worked", false)
		if _, err := threads.Lock(t.Context(), w.Workspace, th.ID, grandchild); err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(9 * time.Minute)
		is("a grandchild has spoken", false)
		w.Skew.Advance(2 * time.Minute)
		is("all are silent", true)
		works(grandchild)
		is("a grandchild works again", false)
		err = w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			return threads.End(ctx, tx, grandchild, execution.Completed, nil, "")
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Skew.Advance(9 * time.Minute)
		is("the child goes on", false)
		w.Skew.Advance(2 * time.Minute)
		is("the child goes on and is silent", true)
	})
}
