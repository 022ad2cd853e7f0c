package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const ws = db.Workspace("00000000-0000-7000-8000-000000000001")

// of returns a coordinator with a cycle of the test's.
func of(cycle func(context.Context, db.Workspace, string) error) *Coordinator {
	return &Coordinator{
		Parts: &parts.Parts{Log: slog.New(slog.DiscardHandler), Traces: trace.NewSource(time.Now, rand.Reader)},
		Cycle: func(ctx context.Context, ws db.Workspace, why string) (coordinate.Report, error) {
			return coordinate.Report{Healthy: 1}, cycle(ctx, ws, why)
		},
	}
}

var slot = time.Date(2026, 1, 5, 10, 30, 0, 0, time.UTC)

// within runs a tick in an invocation of a minute on a virtual clock. It returns when cycles began.
func within(t *testing.T, tick Tick, cycle func(n int) error) (begun []time.Duration, r Report, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := of(func(_ context.Context, _ db.Workspace, why string) error {
			if hand := why == "hand"; hand != (tick.Slot.IsZero() && !tick.Scheduled) {
				t.Errorf("the cycle is because of %q", why)
			}
			begun = append(begun, time.Since(start))
			return cycle(len(begun))
		})
		r, err = c.Run(ctx, tick)
	})
	return begun, r, err
}

func TestAScheduledTickHasTwoPasses(t *testing.T) {
	none := func(int) error { return nil }
	for _, c := range []struct {
		tick Tick
		want []time.Duration
	}{
		{Tick{Workspace: ws, Slot: slot}, []time.Duration{0, 30 * time.Second}},
		{Tick{Workspace: ws, Scheduled: true}, []time.Duration{0}},
		{Tick{Workspace: ws}, []time.Duration{0}},
	} {
		begun, r, err := within(t, c.tick, none)
		if err != nil || !slices.Equal(begun, c.want) || r.Passes != len(c.want) || r.Cycles != len(c.want) {
			t.Errorf("%+v: cycles at %v, %+v, %v", c.tick, begun, r, err)
		}
	}
}

// TestAWorkspaceWithoutAgentsAndTasksHoldsNoInvocation: where there are many workspaces, each has an invocation of
// its own, which would wait for half of each minute.
func TestAWorkspaceWithoutAgentsAndTasksHoldsNoInvocation(t *testing.T) {
	for _, has := range []coordinate.Report{{}, {Healthy: 1}, {Stale: 1}, {Pending: 1}, {Running: 1}} {
		synctest.Test(t, func(t *testing.T) {
			c := of(nil)
			c.Cycle = func(context.Context, db.Workspace, string) (coordinate.Report, error) { return has, nil }
			want := 2
			if has.Healthy+has.Stale+has.Pending+has.Running == 0 {
				want = 1
			}
			if r, err := c.Run(t.Context(), Tick{Workspace: ws, Slot: slot}); err != nil || r.Passes != want || r.Cycles != want {
				t.Errorf("%+v: %+v, %v", has, r, err)
			}
		})
	}
}

// A pass that takes long leaves no time for a second one.
func TestTheDeadlineBoundsThePasses(t *testing.T) {
	begun, r, err := within(t, Tick{Workspace: ws, Slot: slot}, func(int) error { time.Sleep(50 * time.Second); return nil })
	if err != nil || len(begun) != 1 || r.Passes != 1 {
		t.Errorf("cycles at %v, %+v, %v", begun, r, err)
	}
}

// While the database is away a cycle is tried again, within the time of the invocation.
func TestADatabaseThatIsAway(t *testing.T) {
	away := fmt.Errorf("read: %w", db.ErrUnavailable)
	begun, r, err := within(t, Tick{Workspace: ws}, func(n int) error {
		if n < 3 {
			return away
		}
		return nil
	})
	if err != nil || r.Cycles != 1 || !slices.Equal(begun, []time.Duration{0, 5 * time.Second, 15 * time.Second}) {
		t.Errorf("cycles at %v, %+v, %v", begun, r, err)
	}
	begun, r, err = within(t, Tick{Workspace: ws, Slot: slot}, func(int) error { return away })
	if !errors.Is(err, db.ErrUnavailable) || r.Cycles != 0 || !slices.Equal(begun, []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second}) {
		t.Errorf("cycles at %v, %+v, %v", begun, r, err)
	}
	if d := time.Duration(r.DurationMS) * time.Millisecond; d > 40*time.Second {
		t.Errorf("it ended after %s: it waited for a try that had no time", d)
	}
}

// A busy lane is another process's work, other failures are errors, and a panic is a failure.
func TestWhatACycleMayReturn(t *testing.T) {
	begun, r, err := within(t, Tick{Workspace: ws}, func(int) error { return fmt.Errorf("take it: %w", &lane.BusyError{}) })
	if err != nil || r.Busy != 1 || r.Cycles != 0 || len(begun) != 1 {
		t.Errorf("busy: %v, %+v, %v", begun, r, err)
	}
	for name, cycle := range map[string]func(int) error{
		"an error": func(int) error { return errors.New("it broke") }, "a panic": func(int) error { panic("it broke") },
	} {
		if begun, r, err := within(t, Tick{Workspace: ws, Slot: slot}, cycle); err == nil || !strings.Contains(err.Error(), string(ws)) || len(begun) != 2 || r.Cycles != 0 {
			t.Errorf("%s: %v, %+v, %v", name, begun, r, err)
		}
	}
}

// A cycle that failed is told of, also when the next one did not.
func TestACycleThatFailsIsTriedInTheNextPass(t *testing.T) {
	begun, r, err := within(t, Tick{Workspace: ws, Slot: slot}, func(n int) error {
		if n == 1 {
			return errors.New("it broke")
		}
		return nil
	})
	if err == nil || !slices.Equal(begun, []time.Duration{0, 30 * time.Second}) || r.Cycles != 1 || r.Passes != 2 {
		t.Errorf("cycles at %v, %+v, %v", begun, r, err)
	}
}

// A tick runs the cycles of all workspaces. One that fails does not stop the others. Many are handed to
// invocations of their own.
func TestATickServesAllWorkspaces(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	var err error
	var mu sync.Mutex
	begun := map[db.Workspace]int{}
	note := func(of db.Workspace) {
		mu.Lock()
		defer mu.Unlock()
		begun[of]++
	}
	c := of(func(_ context.Context, of db.Workspace, _ string) error {
		if note(of); of == e.Workspace {
			return errors.New("it broke")
		}
		return nil
	})
	if c.Workspaces, err = workspace.New(e.DB); err != nil {
		t.Fatal(err)
	}
	add := func(n int) {
		for range n {
			id := uuid.NewString()
			err := e.DB.Tx(t.Context(), db.Workspace(id), func(ctx context.Context, tx *db.Tx) error {
				_, err := c.Workspaces.Create(ctx, tx, "w-"+id, "W", "test")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	add(3)
	tended := 0
	c.Tend = func(context.Context) { tended++ }
	r, err := c.Run(t.Context(), Tick{})
	if err == nil || r.Workspaces < 4 || r.Cycles != r.Workspaces-1 || len(begun) != r.Workspaces {
		t.Errorf("%+v, %v: %v", r, err, begun)
	}
	add(inLine)
	var fanned []Tick
	c.Fan = func(_ context.Context, one Tick) error {
		mu.Lock()
		defer mu.Unlock()
		fanned = append(fanned, one)
		return nil
	}
	r, err = c.Run(t.Context(), Tick{Slot: slot})
	if err != nil || r.Fanned != r.Workspaces || len(fanned) != r.Workspaces || r.Cycles != 0 || r.Passes != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if tended == 0 {
		t.Error("what else is due was not done")
	}
	seen := map[db.Workspace]bool{}
	for _, one := range fanned {
		if seen[one.Workspace] || !one.Slot.Equal(slot) {
			t.Errorf("fanned %+v", one)
		}
		seen[one.Workspace] = true
	}
}

// TestOtherWorkDoesNotWaitForTheDatabase: what else is due is done before a cycle is tried again.
func TestOtherWorkDoesNotWaitForTheDatabase(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var tries atomic.Int32
	c := of(func(context.Context, db.Workspace, string) error {
		tries.Add(1)
		return fmt.Errorf("read: %w", db.ErrUnavailable)
	})
	var err error
	if c.Workspaces, err = workspace.New(e.DB); err != nil {
		t.Fatal(err)
	}
	c.Tend = func(context.Context) { cancel() } // so that no pause is waited for
	r, err := c.Run(ctx, Tick{})
	if !errors.Is(err, db.ErrUnavailable) || r.Workspaces == 0 || int(tries.Load()) != r.Workspaces {
		t.Errorf("%d cycles before the other work, %+v, %v", tries.Load(), r, err)
	}
}

// TestWhatWasDoneBeforeAFailureCounts: a cycle whose second round fails has started agents in its first.
func TestWhatWasDoneBeforeAFailureCounts(t *testing.T) {
	var logs strings.Builder
	c := of(nil)
	c.Log = slog.New(slog.NewTextHandler(&logs, nil))
	broke := errors.New("it broke")
	c.Cycle = func(context.Context, db.Workspace, string) (coordinate.Report, error) {
		return coordinate.Report{Rounds: 1, Assigned: 2}, broke
	}
	if r, err := c.Once(t.Context(), ws, "test"); !errors.Is(err, broke) || r.Assigned != 2 || !strings.Contains(logs.String(), "assigned=2") {
		t.Errorf("%+v, %v: %s", r, err, logs.String())
	}
}
