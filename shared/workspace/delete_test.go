package workspace_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// TestALaneThatIsTakenMeanwhileKeepsTheWorkspace: a lane is acquired while its workspace is being
// deleted. When the acquire was first, the workspace stays. The lane may be new or used before.
func TestALaneThatIsTakenMeanwhileKeepsTheWorkspace(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		lanes, err := lane.New(w.DB)
		if err != nil {
			t.Fatal(err)
		}
		for name, known := range map[string]bool{"a new lane": false, "a lane that was held before": true} {
			t.Run(name, func(t *testing.T) {
				ws := dbtest.NewWorkspace(t, w.DB)
				if known {
					x := lane.Request{Workspace: ws, Lane: "x", Holder: "us"}
					if err := lanes.Do(t.Context(), x, lane.Wait{}, func(context.Context, *lane.Hold) error { return nil }); err != nil {
						t.Fatal(err)
					}
				}
				a := w.get(t, ws)
				done, deleted := make(chan struct{}), error(nil)
				err := w.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error {
					var acquired bool
					if err := tx.One(ctx, []any{&acquired}, w.q.Acquire); err != nil || !acquired {
						t.Errorf("the lane: %v, %v", acquired, err)
					}
					go func() {
						defer close(done)
						deleted = w.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error { return w.s.Delete(ctx, tx, a) })
					}()
					dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
					return nil
				})
				<-done
				if err != nil || !errors.Is(deleted, workspace.ErrAtWork) {
					t.Errorf("deleting: %v, want %v (%v)", deleted, workspace.ErrAtWork, err)
				}
				w.get(t, ws)
			})
		}
	})
}

// TestALaneOfADeletedWorkspaceIsNotTaken: an acquire in a workspace that is being deleted waits,
// and then finds no workspace.
func TestALaneOfADeletedWorkspaceIsNotTaken(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		lanes, err := lane.New(w.DB)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []lane.Name{"new", "known"} {
			ws := dbtest.NewWorkspace(t, w.DB)
			request := lane.Request{Workspace: ws, Lane: "known", Holder: "us"}
			if err := lanes.Do(t.Context(), request, lane.Wait{}, func(context.Context, *lane.Hold) error { return nil }); err != nil {
				t.Fatal(err)
			}
			request.Lane = name
			a := w.get(t, ws)
			done, acquired := make(chan struct{}), error(nil)
			err := w.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error {
				if err := w.s.Delete(ctx, tx, a); err != nil {
					return err
				}
				go func() {
					defer close(done)
					_, acquired = lanes.Acquire(t.Context(), request)
				}()
				dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
				return nil
			})
			<-done
			if err != nil || !errors.Is(acquired, db.ErrReference) {
				t.Errorf("lane %s: %v, want %v (%v)", name, acquired, db.ErrReference, err)
			}
			if _, err := w.s.Get(t.Context(), ws); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("lane %s: the workspace is still there: %v", name, err)
			}
		}
	})
}

// TestADeletedWorkspaceIsOfNoUse from the commit of its closing on, also before its rows are deleted: it is in
// no list of a schedule, no lane of it is taken, and its slug is free. Its rows go later, and those of others stay.
func TestADeletedWorkspaceIsOfNoUse(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		lanes, err := lane.New(w.DB)
		if err != nil {
			t.Fatal(err)
		}
		a, err := w.create(t, slug(), "A")
		if err != nil {
			t.Fatal(err)
		}
		known := lane.Request{Workspace: a.ID, Lane: "known", Holder: "us"}
		if err := lanes.Do(t.Context(), known, lane.Wait{}, func(context.Context, *lane.Hold) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := w.DB.Tx(t.Context(), a.ID, func(ctx context.Context, tx *db.Tx) error { return w.s.Close(ctx, tx, a) }); err != nil {
			t.Fatal(err)
		}
		if _, err := w.s.Get(t.Context(), a.ID); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("it is read: %v", err)
		}
		for _, name := range []lane.Name{"known", "new"} {
			request := known
			request.Lane = name
			if _, err := lanes.Acquire(t.Context(), request); !errors.Is(err, db.ErrReference) {
				t.Errorf("lane %s: %v, want %v", name, err, db.ErrReference)
			}
		}
		all, err1 := w.s.All(t.Context())
		unserved, err2 := w.s.Unserved(t.Context(), workspace.Schedule{}, "")
		due, closed, err3 := w.s.Due(t.Context())
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(all, a.ID) || slices.Contains(unserved, a.ID) || slices.Contains(due, a.ID) || !slices.Contains(closed, a.ID) {
			t.Errorf("of all %t, of those whose slot is due %t, of those to tend %t, of those to delete %t",
				slices.Contains(all, a.ID), slices.Contains(unserved, a.ID), slices.Contains(due, a.ID), slices.Contains(closed, a.ID))
		}
		b, err := w.create(t, a.Slug, "B")
		if err != nil {
			t.Errorf("its slug is taken: %v", err)
		}
		for range 2 { // an open workspace stays
			for _, ws := range []db.Workspace{a.ID, b.ID} {
				if err := w.s.Erase(t.Context(), ws); err != nil {
					t.Fatal(err)
				}
			}
			w.get(t, b.ID)
		}
		if _, closed, err := w.s.Due(t.Context()); err != nil || slices.Contains(closed, a.ID) {
			t.Errorf("it is still there: %v", err)
		}
	})
}
