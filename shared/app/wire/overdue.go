package wire

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// overdue ends approvals that nobody has decided in time and executions that are silent for too
// long. It also continues deliveries that have lost their outbox row.
func (s *Surfaces) overdue(ctx context.Context, ws db.Workspace) error {
	err := s.Heartbeat.Tend(ctx, ws)
	swept, failed := s.Inbox.Sweep(ctx, ws)
	if swept.Kicked > 0 {
		s.Log.WarnContext(ctx, "webhooks that nothing went on with go on", "count", swept.Kicked)
	}
	if swept.GivenUp > 0 {
		s.Log.WarnContext(ctx, "webhooks were given up: a person has to look", "count", swept.GivenUp)
	}
	return errors.Join(err, failed)
}
