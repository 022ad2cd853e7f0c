package heartbeat_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

const orphanSource = `
-- name: Orphan
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, subject, attempt, created_at, updated_at)
VALUES ($1, $2, 'operator', 'op', 'op_test', 'running', $3, 1, lk_now(), lk_now());

-- name: Keep
UPDATE executions SET updated_at = updated_at WHERE workspace_id = $1 AND id = $2;
`

// TestWhatCantBeHealedKeepsNothingElse: of two orphans the older one can't be closed, as its lane's name is too long. The other
// one is closed, the beat goes on with its other phases, and a person is told.
func TestWhatCantBeHealedKeepsNothingElse(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		bad, good := uuid.NewString(), uuid.NewString()
		var q struct{ Orphan, Keep db.Query }
		if err := db.Load(fstest.MapFS{"orphan.sql": {Data: []byte(orphanSource)}}, &q); err != nil {
			t.Fatal(err)
		}
		add := func(id string, subject lane.Name) {
			if _, err := w.DB.Exec(t.Context(), w.Workspace, q.Orphan, id, subject); err != nil {
				t.Fatal(err)
			}
			w.Skew.Advance(time.Minute)
		}
		add(bad, lane.Name("other:"+strings.Repeat("x", 200)))
		add(good, lane.Execution(good))
		w.Skew.Advance(2 * time.Hour)
		r := w.beat(t, slot(1))
		if e := must(w.Runs.Get(t.Context(), w.Workspace, good))(t); e.Status != execution.Failed {
			t.Errorf("the other orphan is %s", e.Status)
		}
		if len(r.Phases) != 6 || r.Phases[0].Failed != 1 || r.Phases[0].Done != 1 || len(r.Alerts) != 1 {
			t.Errorf("the report is %+v", r)
		}
	})
}

// TestAnOrphanIsNotEndedUnderALiveHold: a beat finds an orphan and waits for its row, while a
// worker resumes the execution. The beat must not end it under the worker's hold: only one of them
// has the lane.
func TestAnOrphanIsNotEndedUnderALiveHold(t *testing.T) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.New(t, engine), idle(t))
			id := uuid.NewString()
			var q struct{ Orphan, Keep db.Query }
			if err := db.Load(fstest.MapFS{"orphan.sql": {Data: []byte(orphanSource)}}, &q); err != nil {
				t.Fatal(err)
			}
			if _, err := w.DB.Exec(t.Context(), w.Workspace, q.Orphan, id, lane.Execution(id)); err != nil {
				t.Fatal(err)
			}
			w.Skew.Advance(2 * time.Hour)
			// Past the pooler: the beat and the transaction need both of its connections.
			direct := dbtest.New(t, dbtest.OnPostgres)
			direct.Skew.Advance(2 * time.Hour)
			lanes := must(lane.New(direct.DB))(t)
			done := make(chan struct{})
			var beat sync.WaitGroup
			var h *lane.Hold
			err := direct.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, q.Keep, id); err != nil {
					return err
				}
				beat.Go(func() {
					defer close(done)
					tick := slot(0)
					tick.Workspace = w.Workspace
					if _, err := w.Run(t.Context(), tick); err != nil {
						t.Error(err)
					}
				})
				dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
				var err error
				h, err = lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Execution(id), Holder: "worker"})
				if _, busy := errors.AsType[*lane.BusyError](err); busy {
					return nil
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			beat.Wait()
			e, err := w.Runs.Get(t.Context(), w.Workspace, id)
			if err != nil || h != nil && e.Status != execution.Running {
				t.Errorf("the worker has %+v, and the execution is %s, %v", h, e.Status, err)
			}
			if h == nil && e.Status != execution.Failed {
				t.Errorf("nobody works on it, and it is %s", e.Status)
			}
		})
	}
}
