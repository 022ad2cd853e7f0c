package outbox

import (
	"context"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

const (
	tendRounds = 20 // in one call of DrainAll
	tendLimit  = 50 // rows in one round
)

// DrainAll sends due rows in rounds of [Sender.Drain] until no row is due or no more can be sent
// now. If rows have ended unsent, it calls ended before the next round, because their successors
// may have to be made ready.
func (s *Sender) DrainAll(ctx context.Context, ws db.Workspace, ended func(context.Context)) error {
	for range tendRounds {
		sent, err := s.Drain(ctx, ws, tendLimit)
		switch unsent := sent.Expired + sent.Uncertain; {
		case err != nil, unsent == 0 && (!sent.More || sent.Claimed == 0):
			return err
		case unsent > 0:
			ended(ctx)
		}
	}
	return nil
}
