package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Heartbeat is one row of the history.
type Heartbeat struct {
	Status Status // of the agent after it
	Vitals
	CreatedAt time.Time
}

// Silence returns how long nothing was heard of an agent; false: it never sent a heartbeat.
func (a Agent) Silence() (time.Duration, bool) {
	if a.LastSeenAt == nil {
		return 0, false
	}
	return max(0, a.now.Sub(*a.LastSeenAt)), true
}

// OwesSince returns since when a heartbeat could have come, and whether the agent owes heartbeats at all. One
// that never sent any does not, nor does one that is started for each task and has not begun any that it has. A start
// counts as a heartbeat. The built-in worker, whose step may be long, owes heartbeats only once its hold on a task has
// ended without being released.
func (a Agent) OwesSince(now time.Time) (last time.Time, owes bool) {
	perTask, builtin := a.Spawner != SpawnPull, a.Spawner == SpawnBuiltin
	if a.LastSeenAt == nil || perTask && a.Newest == nil || builtin && (a.Until == nil || a.Until.After(now)) {
		return last, false
	}
	last = *a.LastSeenAt
	if perTask && a.Newest.After(last) {
		last = *a.Newest
	}
	if builtin && a.Until.After(last) {
		last = *a.Until
	}
	return last, true
}

// PresentHealth returns the health that follows from the latest heartbeat, at the time when the agent
// was read. An agent that is started for each task has a good one between tasks, and a terminated agent
// has none.
func (a Agent) PresentHealth() Health {
	last, owes := a.OwesSince(a.now)
	silence := a.now.Sub(last)
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	switch {
	case a.LastSeenAt == nil, a.Status == Terminated:
		return ""
	case a.Spawner != SpawnPull && a.Tasks == 0:
		return IsHealthy
	case owes && silence > second(a.StaleSeconds):
		return IsStale
	case owes && silence > 2*second(a.IntervalSeconds), a.Health == IsDegraded:
		return IsDegraded
	}
	return IsHealthy
}

// Heartbeats reads an agent and its newest heartbeats, the newest first. The coordinator deletes those that are older
// than the workspace keeps them. It returns [db.ErrNoRows] if there is no such agent.
func (s *Store) Heartbeats(ctx context.Context, ws db.Workspace, id string, limit int) (Agent, []Heartbeat, error) {
	var agents []Agent
	var beats []Heartbeat
	var b db.Batch
	b.Each(collect(&agents), s.q.Get, id)
	b.Each(db.Append(&beats, func(scan db.Scan, h *Heartbeat) error {
		v := &h.Vitals
		return scan(&h.Status, db.Optional(&v.Task), &v.Progress, db.Optional(&v.Step), &v.MemoryMB, &v.CPU, &h.CreatedAt)
	}), s.q.Heartbeats, id, limit)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return Agent{}, nil, fmt.Errorf("read the heartbeats of an agent: %w", err)
	}
	a, err := first(agents, nil)
	return a, beats, err
}
