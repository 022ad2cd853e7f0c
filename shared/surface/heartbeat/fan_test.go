package heartbeat_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// handed is a fake invocation service. It runs the ticks that it receives, and fails for one
// workspace.
type handed struct {
	*world
	t     *testing.T
	fails db.Workspace
	stop  func(n int) // receives the number of ticks so far

	mu      sync.Mutex
	order   []db.Workspace
	atOnce  int
	most    int
	waiting chan struct{} // is closed when a second tick has arrived
	two     sync.Once
}

func (h *handed) hand(ctx context.Context, t heartbeat.Tick) error {
	h.mu.Lock()
	h.order = append(h.order, t.Workspace)
	n := len(h.order)
	h.atOnce++
	h.most = max(h.most, h.atOnce)
	if h.atOnce == 2 {
		h.two.Do(func() { close(h.waiting) })
	}
	h.mu.Unlock()
	if n == 1 { // the first one waits until another has begun
		select {
		case <-h.waiting:
		case <-ctx.Done():
		}
	}
	h.stop(n)
	defer func() { h.mu.Lock(); h.atOnce--; h.mu.Unlock() }()
	if t.Workspace == h.fails {
		return errDied
	}
	slot := fmt.Sprintf("heartbeat:%s:%s", t.Workspace, t.Slot.UTC().Format("2006-01-02T15:04Z"))
	if _, err := h.DB.Exec(context.WithoutCancel(ctx), t.Workspace, h.q.Served, ids(), slot); err != nil {
		h.t.Error(err)
	}
	return nil
}

// TestATickReachesAThousandWorkspaces checks that a tick reaches its workspaces concurrently. When
// its time is up, the next delivery continues with the workspaces that were not reached. A failed
// beat alone is repeated, and the next slot begins with it.
func TestATickReachesAThousandWorkspaces(t *testing.T) {
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		t.Run(engine, func(t *testing.T) {
			const all, cut = 1_000, 300
			w := newWorld(t, dbtest.Alone(t, engine), idle(t))
			must(w.DB.Exec(t.Context(), "", w.q.ManyWorkspaces, all-1))(t)
			h := &handed{world: w, t: t, fails: "00000000-0000-7000-9000-000000000007", stop: func(int) {}, waiting: make(chan struct{})}
			w.Fan = h.hand

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h.stop = func(n int) {
				if n == cut {
					cancel()
				}
			}
			r, err := w.Run(ctx, slot(1))
			first := h.order
			if err == nil || r.Outcome != heartbeat.Fanned || r.Left != all-len(first) || len(first) < cut || len(first) > cut+50 || h.most < 2 {
				t.Fatalf("with little time %d were handed on, %d at once: %+v, %v", len(first), h.most, r, err)
			}
			h.order, h.stop = nil, func(int) {}
			r, err = w.Run(t.Context(), slot(1))
			if err == nil || r.Left != 0 || len(h.order) != all-len(first)+1 { // and the one that failed
				t.Errorf("delivered again, %d were handed on: %+v, %v", len(h.order), r, err)
			}
			seen := map[db.Workspace]int{}
			for _, ws := range append(first, h.order...) {
				seen[ws]++
			}
			if len(seen) != all || seen[h.fails] != 2 {
				t.Errorf("%d workspaces were reached, the one that fails %d times", len(seen), seen[h.fails])
			}
			h.order = nil
			r, err = w.Run(t.Context(), slot(1)) // it is the only one left, so it beats here
			if err != nil || len(h.order) != 0 || r.Workspace != string(h.fails) || r.Outcome != heartbeat.Idle {
				t.Errorf("delivered a third time: %v, %+v, %v", h.order, r, err)
			}
			if r, err = w.Run(t.Context(), slot(1)); err != nil || r.Outcome != heartbeat.Duplicate || len(h.order) != 0 {
				t.Errorf("delivered a fourth time: %v, %+v, %v", h.order, r, err)
			}

			h.fails = "00000000-0000-7000-9000-000000000999"
			for n := 2; n < 4; n++ {
				h.order = nil
				_, _ = w.Run(t.Context(), slot(n))
			}
			if at := index(h.order, h.fails); len(h.order) != all || at > 16 {
				t.Errorf("of %d, the one that failed comes as the %dth", len(h.order), at)
			}
		})
	}
}

func index(order []db.Workspace, of db.Workspace) int {
	for i, ws := range order {
		if ws == of {
			return i
		}
	}
	return len(order)
}

// TestABeatThatRunsIsNotHandedOnAgain checks that a tick delivered again skips the workspaces whose
// beat is running.
func TestABeatThatRunsIsNotHandedOnAgain(t *testing.T) {
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		t.Run(engine, func(t *testing.T) {
			k, _ := mortal(1)
			w := newWorld(t, dbtest.Alone(t, engine), pilot(risky), k)
			there := *w
			there.Workspace = dbtest.NewWorkspace(t, w.DB)
			w.plan(t, w.addObjective(t, "x", 5), "one", "two")
			w.dies(t, slot(1))
			there.beat(t, slot(1))
			held := w.acquire(t, "heartbeat")
			if r, err := w.Run(t.Context(), slot(1)); err != nil || r.Outcome != heartbeat.Duplicate {
				t.Errorf("while it runs: %+v, %v", r, err)
			}
			w.release(t, held)
			if r, err := w.Run(t.Context(), slot(1)); err != nil || r.Workspace != string(w.Workspace) || r.Outcome != heartbeat.Completed {
				t.Errorf("when it was cut off: %+v, %v", r, err)
			}
		})
	}
}

// TestAPanicOfOneWorkspacesBeatIsItsError checks that the other workspaces beat.
func TestAPanicOfOneWorkspacesBeatIsItsError(t *testing.T) {
	w := newWorld(t, dbtest.Alone(t, dbtest.OnSQLite), pilot(obedient))
	there := *w
	there.Workspace = dbtest.NewWorkspace(t, w.DB)
	there.set(t, `{}`)
	w.plan(t, w.addObjective(t, "x", 5), "one")
	w.think(pilot(nil)) // a nil function, which panics
	r, err := w.Run(t.Context(), slot(1))
	if err == nil || len(r.Workspaces) != 2 {
		t.Errorf("it is %+v, %v", r, err)
	}
	there.mustBeFree(t)
}

// TestWhatIsStoppedComesLast checks that workspaces whose beats a kill switch stops never run a
// slot, and do not delay the others.
func TestWhatIsStoppedComesLast(t *testing.T) {
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, dbtest.Alone(t, engine), idle(t))
			must(w.DB.Exec(t.Context(), "", w.q.ManyWorkspaces, 9))(t)
			schedule := workspace.Schedule{Surface: trace.Heartbeat, Prefix: "heartbeat:", Lane: string(lane.Heartbeat)}
			order := func() []db.Workspace {
				t.Helper()
				return must(w.Workspaces.Unserved(t.Context(), schedule, slot(1).Slot.UTC().Format("2006-01-02T15:04Z")))(t)
			}
			all := order()
			whole, agent, skill, released := all[0], all[1], all[2], all[3]
			stop := func(ws db.Workspace, k halt.Switch) (id string) {
				t.Helper()
				k.SetBy = "test"
				err := w.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error {
					on, err := w.Switches.Set(ctx, tx, k)
					id = on.ID
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return id
			}
			stop(whole, halt.Switch{Scope: halt.Workspace})
			stop(agent, halt.Switch{Scope: halt.Agent, Target: activity.Operator})
			stop(skill, halt.Switch{Scope: halt.Skill, Target: "x"})
			id := stop(released, halt.Switch{Scope: halt.Workspace})
			err := w.DB.Tx(t.Context(), released, func(ctx context.Context, tx *db.Tx) error {
				_, _, err := w.Switches.Release(ctx, tx, id, "test")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			want := append(slices.Clone(all[2:]), whole, agent)
			if got := order(); !slices.Equal(got, want) {
				t.Errorf("the order is %v, want %v", got, want)
			}
		})
	}
}
