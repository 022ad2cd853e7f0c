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

// PresentHealth returns the health that follows from the latest heartbeat, at the time when the agent
// was read. Agents that are started for each task are not expected to send heartbeats between tasks, and
// a terminated agent is expected to send none: it has no health.
func (a Agent) PresentHealth() Health {
	silence, heard := a.Silence()
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	switch {
	case !heard, a.Status == Terminated:
		return ""
	case a.Spawner != SpawnPull && a.Tasks == 0:
		return IsHealthy
	case silence > second(a.StaleSeconds):
		return IsStale
	case silence > 2*second(a.IntervalSeconds), a.Health == IsDegraded:
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
