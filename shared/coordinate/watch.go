package coordinate

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// worker is an agent with what it works on now.
type worker struct {
	agent.Agent
	halted bool // by a kill switch
	now    time.Time
}

func (w worker) free() int { return w.MaxConcurrentTasks - w.Tasks }

// perTask reports whether the agent is started for each task.
func (w worker) perTask() bool { return w.Spawner != agent.SpawnPull }

func workers(into *[]worker) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, w *worker) error {
		var capabilities string
		err := scan(&w.ID, &w.Name, &w.Status, &capabilities, &w.CoordinatorEnabled, &w.MaxConcurrentTasks, &w.IntervalSeconds, &w.StaleSeconds,
			&w.Spawner, db.Optional(&w.SpawnerTarget), db.Optional(&w.Health), &w.LastSeenAt, &w.IdleSince,
			&w.Tasks, &w.Newest, &w.halted, &w.Until, &w.now)
		if err == nil {
			err = json.Unmarshal([]byte(capabilities), &w.Capabilities)
		}
		if err != nil {
			return fmt.Errorf("agent %s: %w", w.ID, err)
		}
		return nil
	})
}

// silence returns for how long no heartbeat came that could have come since watching, and whether the agent owes
// heartbeats at all.
func (w worker) silence(watching time.Time) (time.Duration, bool) {
	last, owes := w.OwesSince(w.now)
	if !owes {
		return 0, false
	}
	if watching.After(last) {
		last = watching
	}
	return w.now.Sub(last), true
}

// lately reports whether an agent became stale in one of the last cycles.
func (w worker) lately() bool {
	return w.Status == agent.Error && w.LastSeenAt != nil &&
		w.now.Sub(*w.LastSeenAt) <= time.Duration(w.StaleSeconds)*time.Second+longestGap
}

// agentChange is a change of an agent that was locked with the status Was.
type agentChange struct {
	ID      string        `json:"id"`
	Was     agent.Status  `json:"was"`
	Becomes agent.Status  `json:"becomes"`
	Health  *agent.Health `json:"health"`
	Pause   bool          `json:"pause"`
	Reason  *string       `json:"reason"` // of a person who has it end
}

// verdict is what a cycle decides about the agents.
type verdict struct {
	changes        []agentChange
	gone           []string // became ERROR
	names          []string // of these
	mass           bool     // so many at once that it was not their fault
	missing        int      // agents in ERROR since one of the last cycles or this one, and those whose heartbeats are overdue
	healthy, stale int
}

// next decides what becomes of an agent whose heartbeat is overdue for long (stale), for a while (late),
// or not.
func (w worker) next(stale, late bool) agentChange {
	c := agentChange{ID: w.ID, Was: w.Status, Becomes: w.Status}
	rests := w.perTask() && w.Tasks == 0
	switch {
	case w.Status == agent.Terminated: // stays so
	case rests && (w.Status == agent.Error || w.Status == agent.Degraded):
		c.Becomes, c.Health = agent.Idle, new(agent.IsHealthy) // nobody beats between two tasks
	case w.Status == agent.Error: // stays so
	case w.Status == agent.Draining:
		if w.Tasks == 0 || stale {
			c.Becomes = agent.Terminated
		}
	case stale:
		c.Becomes, c.Health = agent.Error, new(agent.IsStale)
	case late:
		c.Becomes, c.Health = agent.Degraded, new(agent.IsDegraded)
	case w.Status == agent.Idle && w.Tasks > 0:
		c.Becomes = agent.Working
	case w.Status == agent.Working && w.Tasks == 0:
		c.Becomes = agent.Idle
	}
	return c
}

// watch decides about the agents. Only those that are locked change. watching is since when cycles
// have followed each other; silence before that counts for nobody. Agents that disappear at once become stale in
// several cycles, because their last heartbeats came at different times.
func watch(all []worker, locked []string, watching time.Time) (v verdict) {
	owing := 0
	for _, w := range all {
		silent, owes := w.silence(watching)
		stale := owes && silent > time.Duration(w.StaleSeconds)*time.Second
		alive := w.Status != agent.Terminated && w.Status != agent.Error
		late := owes && silent > 2*time.Duration(w.IntervalSeconds)*time.Second
		if owes && alive || w.lately() {
			owing++
			if stale || late || !alive {
				v.missing++
			}
		}
		c := w.next(stale, late)
		if c.Becomes != c.Was && !slices.Contains(locked, w.ID) {
			c.Becomes = c.Was // it has changed since: the next cycle decides
		}
		switch c.Becomes {
		case agent.Error:
			v.stale++
			if c.Was != agent.Error {
				v.gone, v.names = append(v.gone, w.ID), append(v.names, w.Name)
			}
		case agent.Idle, agent.Working:
			v.healthy++
		}
		if c.Becomes != c.Was {
			v.changes = append(v.changes, c)
		}
	}
	v.mass = len(v.gone) > 0 && owing >= massOf && 2*v.missing > owing
	if v.mass {
		for i := range v.changes {
			if v.changes[i].Becomes == agent.Error {
				v.changes[i].Health = nil // one event tells of all
			}
		}
	}
	return v
}
