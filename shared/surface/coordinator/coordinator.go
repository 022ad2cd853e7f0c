// Package coordinator runs the coordinator's cycles: on a schedule, after a kick, and by hand. Package
// coordinate has what one cycle of one workspace does.
package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Coordinator runs cycles. It keeps no state between them. Cycles of different workspaces may run
// concurrently.
type Coordinator struct {
	*parts.Parts
	// Cycle runs one cycle of a workspace, and says why. It returns a [lane.BusyError] if another
	// process runs one.
	Cycle func(ctx context.Context, ws db.Workspace, why string) (coordinate.Report, error)
	// Fan hands a workspace's part of a tick to another invocation. It is called concurrently. If it is
	// nil, all cycles run in this process.
	Fan func(context.Context, Tick) error
	// Tend does what else is due in all workspaces. It is called once in each pass, before
	// cycles are tried again; nil: nothing is.
	Tend func(context.Context)
}

// A Tick is one delivery of the schedule, or a request for cycles by hand.
type Tick struct {
	// Workspace is the workspace whose cycle runs. Empty means every workspace.
	Workspace db.Workspace
	// Slot is the scheduled time. A scheduled tick has two passes, of which the second begins half a
	// minute after the first, because a schedule has no shorter interval than a minute. The second is left out
	// for a single workspace that has nothing to watch. The zero time means one pass.
	Slot time.Time
	// Scheduled says that a tick without a slot is not by hand: a schedule finer than a minute has no slots.
	Scheduled bool
}

// why returns the reason that a cycle records.
func (t Tick) why() string {
	if t.Slot.IsZero() && !t.Scheduled {
		return "hand"
	}
	return "schedule"
}

// A Report counts what a tick did. The counts are of all its passes.
type Report struct {
	Passes     int   `json:"passes"`
	Workspaces int   `json:"workspaces"`       // at the last pass
	Cycles     int   `json:"cycles"`           // that ended without an error
	Busy       int   `json:"busy"`             // workspaces whose cycle another process ran
	Fanned     int   `json:"fanned,omitempty"` // workspaces that were handed to invocations of their own
	DurationMS int64 `json:"durationMs"`

	idle int // workspaces in which there was nothing to watch
}

const (
	passes    = 2
	passEvery = 30 * time.Second
	minPass   = 5 * time.Second // time that a pass needs

	inLine       = 16 // workspaces whose cycles run in one invocation
	cycledAtOnce = 4  // cycles at the same time in this process
	fannedAtOnce = 16 // invocations that are started at the same time
	maxNamed     = 5  // failures that an error names
)

// patience are the pauses before a pass is tried again while the database is away.
var patience = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}

// Run runs the passes of a tick. It is called by the schedule through package edge, by the local
// runner, and by lanekeeper trigger coordinator. A busy lane is no error: another process does the
// work. While the database is away Run tries again, for as long as ctx's inner deadline allows. Another failure ends no
// pass: other workspaces have their second cycle. An error says that cycles failed; it names workspaces.
func (c *Coordinator) Run(ctx context.Context, t Tick) (r Report, err error) {
	ctx, cancel := lane.WithInnerDeadline(ctx)
	defer cancel()
	begun, many := time.Now(), 1
	if !t.Slot.IsZero() {
		many = passes
	}
	for n := range many {
		if n > 0 && !sleep(ctx, time.Until(begun.Add(time.Duration(n)*passEvery))) {
			break
		}
		failed := c.pass(ctx, t, &r)
		err = cmp.Or(failed, err)
		if r.Passes++; errors.Is(failed, db.ErrUnavailable) || r.Fanned > 0 || t.Workspace != "" && r.idle > 0 {
			break
		}
	}
	r.DurationMS = time.Since(begun).Milliseconds()
	return r, err
}

// sleep waits. It returns false, at once or when ctx ends, if there is no time for a pass afterwards.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < max(d, 0)+minPass {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pass runs a cycle in each workspace of a tick, and repeats those that failed because the database is
// away.
func (c *Coordinator) pass(ctx context.Context, t Tick, r *Report) error {
	due, err := c.workspaces(ctx, t)
	if r.Workspaces = len(due); err == nil {
		due, err = c.all(ctx, t, due, r)
	}
	if c.Tend != nil && t.Workspace == "" { // before the pauses, and also where cycles failed: it is other work
		c.Tend(ctx)
	}
	for _, pause := range patience {
		if !errors.Is(err, db.ErrUnavailable) {
			break
		}
		c.Log.ErrorContext(ctx, "the database is away: the cycle is tried again", "error", err, "in_seconds", int(pause.Seconds()))
		if !sleep(ctx, pause) {
			break
		}
		if r.Workspaces == 0 {
			due, err = c.workspaces(ctx, t)
			r.Workspaces = len(due)
		}
		if err == nil || r.Workspaces > 0 {
			due, err = c.all(ctx, t, due, r)
		}
	}
	if err != nil {
		return fmt.Errorf("coordinate: %w", err)
	}
	return nil
}

// workspaces lists the workspaces of a tick.
func (c *Coordinator) workspaces(ctx context.Context, t Tick) ([]db.Workspace, error) {
	if t.Workspace != "" {
		return []db.Workspace{t.Workspace}, nil
	}
	return c.Workspaces.All(ctx)
}

// all runs one cycle of each workspace, or has invocations of their own do so where there are many. It
// returns the workspaces whose cycles are to be tried again.
func (c *Coordinator) all(ctx context.Context, t Tick, due []db.Workspace, r *Report) (again []db.Workspace, err error) {
	var idle atomic.Int32
	atOnce, do := cycledAtOnce, func(ctx context.Context, one Tick) error {
		found, err := c.Once(ctx, one.Workspace, one.why())
		if err == nil && !watched(found) {
			idle.Add(1)
		}
		return err
	}
	if c.Fan != nil && len(due) > inLine {
		atOnce, do = fannedAtOnce, func(ctx context.Context, one Tick) error { return c.Fan(ctx, one) }
	}
	fanned := atOnce == fannedAtOnce
	errs := make([]error, len(due))
	var working sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i, ws := range due {
		places <- struct{}{}
		working.Go(func() {
			defer func() { <-places }()
			one := t
			one.Workspace = ws
			errs[i] = c.guarded(ctx, one, do)
		})
	}
	working.Wait()
	r.idle += int(idle.Load())
	var named []error
	for i, err := range errs {
		_, busy := errors.AsType[*lane.BusyError](err)
		switch {
		case err == nil && fanned:
			r.Fanned++
		case err == nil:
			r.Cycles++
		case busy:
			r.Busy++
		default:
			named, again = append(named, err), append(again, due[i])
		}
	}
	if more := len(named) - maxNamed; more > 0 {
		named = append(slices.Clip(named[:maxNamed]), fmt.Errorf("and %d others", more))
	}
	return again, errors.Join(named...)
}

// guarded does one workspace's part of a tick. It converts a panic into an error.
func (c *Coordinator) guarded(ctx context.Context, t Tick, do func(context.Context, Tick) error) (err error) {
	ctx = trace.WithWorkspace(trace.With(ctx, c.Traces.New(trace.Coordinator)), string(t.Workspace))
	defer func() {
		if p := recover(); p != nil {
			c.Log.ErrorContext(ctx, "a cycle panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("workspace %s: its cycle panicked", t.Workspace)
		}
	}()
	if err := do(ctx, t); err != nil {
		return fmt.Errorf("workspace %s: %w", t.Workspace, err)
	}
	return nil
}

// watched reports whether a workspace has agents or tasks whose time may come before the next tick. Others hold no
// invocation of their own for a second pass: where there are many workspaces, each would have one.
func watched(r coordinate.Report) bool {
	return r.Healthy+r.Stale+r.Gone+r.Pending+r.Running+r.Commands > 0
}

// Once runs one cycle of a workspace, counts it, and logs what it did. It returns a [lane.BusyError] if
// another process runs one. What a cycle did before one of its rounds failed counts, too. Once is called
// by Run, by the outbox for a workspace that was kicked, and by POST /api/v1/coordinator/recover.
func (c *Coordinator) Once(ctx context.Context, ws db.Workspace, why string) (coordinate.Report, error) {
	r, err := c.Cycle(ctx, ws, why)
	if _, busy := errors.AsType[*lane.BusyError](err); busy {
		c.Meters.CycleBusy()
		return r, err
	}
	if err != nil {
		c.Meters.CycleFailed()
		if r.Rounds == 0 {
			return r, err
		}
	}
	c.Meters.Cycle(observe.Cycle{Took: r.Took, Spawned: r.Spawned, Recovered: r.Recovered + r.TimedOut})
	level := slog.LevelDebug
	if r.Assigned+r.Recovered+r.Requeued+r.Unclaimed+r.TimedOut+r.Failed+r.Paused+r.Gone > 0 {
		level = slog.LevelInfo
	}
	c.Log.Log(ctx, level, "cycle ended", "assigned", r.Assigned, "recovered", r.Recovered, "requeued", r.Requeued, "unclaimed", r.Unclaimed,
		"timed_out", r.TimedOut, "failed", r.Failed, "paused", r.Paused, "gone", r.Gone, "pending", r.Pending, "running", r.Running,
		"duration_ms", r.Took.Milliseconds())
	c.Live.Rebuild(ctx, ws)
	return r, err
}
