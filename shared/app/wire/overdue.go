package wire

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// overdue ends what nobody has answered in time, and what nothing was heard of, and has deliveries go
// on that nothing goes on with.
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
