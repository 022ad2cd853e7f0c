package wire

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// GivenBack counts what was taken from processes that have died.
type GivenBack struct {
	Lanes int // holds that were ended
	Rows  int // of the outbox, whose claims were ended
	Turns int // of conversations, which go on
}

// maxHolds is how many live holds of a workspace are looked through.
const maxHolds = 10_000

// GiveBack ends the holds and the claims of processes that have died, in all workspaces,
// so that what they worked on goes on at once and not when their leases end. dead must
// be sure: what it answers true for can't write any more, and its name, as it stands in
// holders, is no other process's. It is called by the local runner, which can know that
// of processes of its own host.
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
	begun := map[lane.Name]*[]execution.Execution{} // of those that stood at the door nothing is written
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
			if id, ok := lane.ExecutionOf(h.Lane); ok {
				s.Operate.GoOn(&change, id)
			}
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

// TakeUp takes up what an earlier process has left: turns of conversations before
// whatever comes now, messages, calls that were approved. It answers a channel that is
// closed when all of that was tried once. What dead says is as for [Surfaces.GiveBack]. It
// is called by the local runner before it serves.
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

// settle gives back the lanes that this process could not give back when it was done with
// them. The turns that were cut off then go on: that is one transaction, so that none is
// forgotten between.
func (s *Surfaces) settle(ctx context.Context) error {
	released, err := s.Lanes.Settle(ctx, func(b *db.Batch, h *lane.Hold) {
		if id, ok := lane.ExecutionOf(h.Lane); ok {
			s.Operate.GoOn(b, id)
		}
	})
	for _, h := range released {
		s.Log.InfoContext(ctx, "lane given back late", "lane", h.Lane)
	}
	return err
}
