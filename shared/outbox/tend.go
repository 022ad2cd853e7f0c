package outbox

import (
	"context"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

const (
	tendRounds = 20 // of one call of DrainAll
	tendLimit  = 50 // rows in a round
)

// DrainAll sends what is due in rounds of [Sender.Drain], until nothing is, or no more can be
// sent now. Where rows have ended unsent it calls ended before the next round: what waits
// behind them may have to be made ready.
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
