package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// GivenBack counts what was released for processes that have died.
type GivenBack struct {
	Lanes int // released holds
	Rows  int // outbox rows whose claims were ended
	Turns int // turns that continue
}

// maxHolds is the largest number of holds that are read for one workspace.
const maxHolds = 10_000

// GiveBack releases the holds and claims of dead processes in all workspaces, so that their work
// continues at once and not when their leases expire. dead must be certain: a holder for which it
// returns true can no longer write, and no other process has its name. GiveBack is called by the
// local runner, which knows this about processes of its own host.
func (s *Surfaces) GiveBack(ctx context.Context, dead func(holder string) bool) (all GivenBack, err error) {
	if err := s.settle(ctx); err != nil {
		return all, err
	}
	workspaces, err := s.Workspaces.All(ctx)
	if err != nil {
		return all, err
	}
	for _, ws := range workspaces {
		one, err := s.giveBack(trace.WithWorkspace(ctx, string(ws)), ws, dead)
		if err != nil {
			return all, fmt.Errorf("give back what a dead process had: %w", err)
		}
		all.Lanes, all.Rows, all.Turns = all.Lanes+one.Lanes, all.Rows+one.Rows, all.Turns+one.Turns
	}
	return all, nil
}

func (s *Surfaces) giveBack(ctx context.Context, ws db.Workspace, dead func(string) bool) (done GivenBack, err error) {
	held, err := s.Lanes.List(ctx, ws, maxHolds)
	if err != nil {
		return done, err
	}
	var look, change db.Batch
	claimants := s.Outbox.Claimants(&look)
	begun := map[lane.Name]*[]execution.Execution{} // a turn that never began has no row here
	for _, h := range held {
		if id, ok := lane.ExecutionOf(h.Lane); ok && dead(string(h.Holder)) {
			begun[h.Lane] = s.Runs.GetIn(&look, id)
		}
	}
	if err := s.DB.Read(ctx, ws, &look); err != nil {
		return done, err
	}
	released := map[lane.Name]*bool{}
	for _, h := range held {
		if dead(string(h.Holder)) {
			released[h.Lane] = s.Lanes.ReleaseOf(&change, h.Lane, h.Holder)
			s.goOn(ctx, &change, h.Lane)
		}
	}
	var rows []*int
	for _, by := range *claimants {
		if dead(by) {
			rows = append(rows, s.Outbox.GiveBack(&change, by))
		}
	}
	if len(released)+len(rows) == 0 {
		return done, nil
	}
	if err := s.DB.Do(ctx, ws, &change); err != nil {
		return done, err
	}
	for name, was := range released {
		if *was {
			done.Lanes++
			if found := begun[name]; found != nil && len(*found) > 0 {
				done.Turns++
			}
		}
	}
	for _, n := range rows {
		done.Rows += *n
	}
	return done, nil
}

// TakeUp continues the work that an earlier process left: turns, which keep their places before new
// ones, messages, and approved calls. It returns a channel that is closed when all of it was tried
// once. For dead see [Surfaces.GiveBack]. It is called by the local runner before it serves.
func (s *Surfaces) TakeUp(ctx context.Context, dead func(holder string) bool, background func(func(context.Context))) (GivenBack, <-chan struct{}, error) {
	given, err := s.GiveBack(ctx, dead)
	if err != nil {
		return given, nil, err
	}
	workspaces, err := s.Workspaces.All(ctx)
	if err != nil {
		return given, nil, err
	}
	for _, ws := range workspaces {
		var b db.Batch
		s.Operate.KeepPlaces(&b)
		if err := s.DB.Do(ctx, ws, &b); err != nil {
			return given, nil, fmt.Errorf("keep the places of turns in line: %w", err)
		}
	}
	return given, s.Tender.All(ctx, background), nil
}

// settle releases the lanes that this process failed to release before. In the same transaction it
// queues the turns that were cut off, so that none is forgotten. It also gives back outbox rows.
func (s *Surfaces) settle(ctx context.Context) error {
	released, err := s.Lanes.Settle(ctx, func(b *db.Batch, h *lane.Hold) {
		s.goOn(ctx, b, h.Lane)
	})
	for _, h := range released {
		s.Log.InfoContext(ctx, "lane given back late", "lane", h.Lane)
	}
	return errors.Join(err, s.Sender.Settle(ctx))
}

// goOn adds to a batch that the work under a lane continues at once.
func (s *Surfaces) goOn(ctx context.Context, b *db.Batch, name lane.Name) {
	if id, ok := lane.ExecutionOf(name); ok {
		s.Operate.GoOn(b, id)
	}
	s.Work.GoOn(ctx, b, name)
}
