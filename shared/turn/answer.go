package turn

import (
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// answer writes the answer down. Where it leaves by the channel of its thread it is a row of the
// outbox, and stands in the thread once it was sent. Where too many messages wait to be sent, it stays in
// the thread.
func (s *turn) answer(ctx context.Context, tx lane.Tx, m thread.Spoken) error {
	if s.kind.Deliverable == nil {
		return s.say(ctx, tx, s.Thread, m)
	}
	t, err := s.Threads.GetLocked(ctx, tx, s.Thread)
	if err != nil {
		return fmt.Errorf("answer in thread %s: %w", s.Thread, err)
	}
	body := redact.From(ctx).Text(m.Body)
	if s.kind.Deliverable(t.Channel, t.Address, body) != nil {
		return s.say(ctx, tx, s.Thread, m)
	}
	err = s.Threads.Answer(ctx, tx, t, thread.Outgoing{Thread: t.ID, Execution: s.exec.ID, Body: body, Key: m.Key})
	if errors.Is(err, thread.ErrFull) { // the turn ends nevertheless
		return s.say(ctx, tx, s.Thread, m)
	}
	return err
}
