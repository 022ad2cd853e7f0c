package coordinate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Status is what the last cycle of a workspace found and did.
type Status struct {
	Cycles    int64
	LastCycle time.Time // when it ended
	Age       time.Duration
	Took      time.Duration
	Instance  string
	Reason    string // what woke it
	Report    Report // without what is not stored
}

// Status reads the state of a workspace. It returns [db.ErrNoRows] before the first cycle.
func (c *Coordinator) Status(ctx context.Context, ws db.Workspace) (s Status, err error) {
	var now time.Time
	var took int64
	r := &s.Report
	err = c.DB.One(ctx, ws, []any{&s.Cycles, &s.LastCycle, &now, &took, &s.Instance, &s.Reason, &r.Pending, &r.Running, &r.Healthy, &r.Stale,
		&r.Assigned, &r.Recovered, &r.Failed}, c.q.Status)
	if err != nil {
		return Status{}, fmt.Errorf("read the coordinator's state: %w", err)
	}
	s.Age, s.Took = now.Sub(s.LastCycle), time.Duration(took)*time.Millisecond
	return s, nil
}

// Note is a row of the coordinator's log of a workspace.
type Note struct {
	ID        string
	Level     task.Level
	Event     string
	Message   string
	Details   json.RawMessage
	Trace     trace.ID
	CreatedAt time.Time
}

// Notes reads the coordinator's log, newest first. An empty level is every level.
func (c *Coordinator) Notes(ctx context.Context, ws db.Workspace, level task.Level, before db.Position, limit int) (found []Note, err error) {
	err = c.DB.Each(ctx, ws, db.Append(&found, func(scan db.Scan, n *Note) error {
		var details string
		err := scan(&n.ID, &n.Level, &n.Event, &n.Message, db.Optional(&details), db.Optional(&n.Trace), &n.CreatedAt)
		if details != "" {
			n.Details = json.RawMessage(details)
		}
		return err
	}), c.q.Notes, append(before.Args(db.Null(level)), limit)...)
	if err != nil {
		return nil, fmt.Errorf("read the coordinator's log: %w", err)
	}
	return found, nil
}
