package agent

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Status             Status
	CoordinatorEnabled *bool
	Capability         string
	Before             db.Position
	Limit              int
}

// List reads agents, the newest first.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) ([]Agent, error) {
	var found []Agent
	err := s.db.Each(ctx, ws, collect(&found), s.q.List,
		append(f.Before.Args(db.Null(f.Status), f.CoordinatorEnabled, db.Null(f.Capability)), f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return found, nil
}
