package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// slotPrefix begins the key of every slot.
const slotPrefix = "heartbeat:"

// slotTime formats a slot's time as in its key; empty: the tick has no slot.
func slotTime(t Tick) string {
	if t.Slot.IsZero() {
		return ""
	}
	return t.Slot.UTC().Truncate(time.Minute).Format("2006-01-02T15:04Z")
}

// Run runs the beat of a tick. It is called by the schedule through package edge, by the local
// runner's ticker, and by POST /api/v1/heartbeat/run. A held lane, a person at work and a slot that
// has run already are successes. A tick without a workspace beats for all workspaces whose slot is
// due. If the tick is delivered again, Run continues with the workspaces that it did not reach or
// whose beat failed.
func (h *Heartbeat) Run(ctx context.Context, t Tick) (Report, error) {
	if t.Workspace != "" {
		return h.beat(ctx, t)
	}
	due, err := h.Workspaces.Unserved(ctx, workspace.Schedule{Surface: trace.Heartbeat, Prefix: slotPrefix,
		Lane: string(lane.Heartbeat)}, slotTime(t))
	switch {
	case err != nil:
		return Report{}, err
	case len(due) == 0 && t.Slot.IsZero(): // there is no workspace
		return Report{Outcome: Fanned, Phases: []Phase{}, Workspaces: []Report{}}, nil
	case len(due) == 0:
		return Report{Outcome: Duplicate, Reason: alreadyRun, Slot: slotTime(t), Phases: []Phase{}}, nil
	case len(due) == 1:
		t.Workspace = due[0]
		return h.beat(ctx, t)
	}
	return h.fan(ctx, t, due)
}

const (
	alreadyRun = "the slot has run already, or a later one has"

	handedAtOnce = 16 // concurrent invocations
	beatenAtOnce = 4  // concurrent beats in this process
	maxNamed     = 5  // failures that an error names
)

// fan hands a tick to each workspace, or beats for it in this process, concurrently, until the
// deadline. Its error names the workspaces that failed and counts those that were not reached.
func (h *Heartbeat) fan(ctx context.Context, t Tick, due []db.Workspace) (Report, error) {
	inner, cancel := lane.WithInnerDeadline(ctx)
	defer cancel()
	atOnce, do := beatenAtOnce, h.beat
	if h.Fan != nil {
		atOnce, do = handedAtOnce, func(ctx context.Context, one Tick) (Report, error) { return Report{}, h.Fan(ctx, one) }
	}
	reports, errs := make([]Report, len(due)), make([]error, len(due))
	var begun atomic.Int64
	var working sync.WaitGroup
	for range min(atOnce, len(due)) {
		working.Go(func() {
			for inner.Err() == nil {
				i := int(begun.Add(1)) - 1
				if i >= len(due) {
					return
				}
				one := t
				one.Workspace = due[i]
				reports[i], errs[i] = h.alone(ctx, one, do)
			}
		})
	}
	working.Wait()
	reached := min(int(begun.Load()), len(due))
	report := Report{Outcome: Fanned, Phases: []Phase{}, Left: len(due) - reached}
	if h.Fan == nil {
		report.Workspaces = reports[:reached]
	}
	return report, fanned(len(due), reached, errs)
}

// alone runs one workspace's part of a tick. It converts a panic into an error.
func (h *Heartbeat) alone(ctx context.Context, t Tick, do func(context.Context, Tick) (Report, error)) (r Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			h.Log.ErrorContext(trace.WithWorkspace(ctx, string(t.Workspace)), "a beat panicked", "panic", fmt.Sprint(p),
				"stack", string(debug.Stack()))
			err = fmt.Errorf("beat of workspace %s: it panicked", t.Workspace)
		}
	}()
	return do(ctx, t)
}

// fanned returns the error of a tick for several workspaces; nil: none failed and all were reached.
func fanned(due, reached int, errs []error) error {
	var named []error
	failed := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		if failed++; failed <= maxNamed {
			named = append(named, err)
		}
	}
	if failed > maxNamed {
		named = append(named, fmt.Errorf("and %d others", failed-maxNamed))
	}
	if left := due - reached; left > 0 {
		named = append(named, fmt.Errorf("the time was up: %d of %d workspaces were not reached, the next delivery begins with them", left, due))
	}
	return errors.Join(named...)
}
