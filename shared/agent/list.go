package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Position is the position of an agent in a listing by time. The zero value is the beginning.
type Position struct {
	At time.Time
	ID string
}

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Status             Status
	CoordinatorEnabled *bool
	Capability         string
	Before             Position
	Limit              int
}

const lastUUID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// List reads agents, the newest first.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) ([]Agent, error) {
	if f.Before.ID == "" {
		f.Before = Position{endOfTime, lastUUID}
	}
	var found []Agent
	err := s.db.Each(ctx, ws, collect(&found), s.q.List, db.Null(f.Status), f.CoordinatorEnabled, db.Null(f.Capability),
		f.Before.At, f.Before.ID, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return found, nil
}
