package reason

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// ErrStale is returned by [Interim.Also] if the messages have changed or are gone. The run then
// calls Between again.
var ErrStale = errors.New("what has come between two steps has changed")

// Interim holds what has arrived before a step of a run. The zero value is empty.
type Interim struct {
	Messages []llm.Message // they join the conversation before the next model call
	// Trust is the trust of the messages; empty: trusted.
	Trust execution.Trust
	// Also is called if there are messages. It writes in the transaction that adds them to the
	// journal, for example to mark them as read. It may run and be rolled back.
	Also func(context.Context, lane.Tx) error
	// Beside are lanes that are not the run's and whose holds Also ends.
	Beside []lane.Name
	// Stop ends the run after the messages were added to the journal; nil: the run continues.
	Stop *Stopped
}

// between adds what has arrived since the last step to the journal, so that a resumed run has it
// too. It returns an Outcome if the run ends.
func (r *Runner) between(ctx context.Context, job Job, s *state) (*Outcome, error) {
	if job.Between == nil {
		return nil, nil
	}
	var in Interim
	for asked := false; !asked; {
		var err error
		if in, err = job.Between(ctx, s.Progress); err != nil {
			return nil, err
		}
		if len(in.Messages) == 0 {
			break
		}
		err = r.appendWith(ctx, job, s, execution.Input, in.Trust, inputBody{Messages: in.Messages}, nil, in)
		if asked = err == nil; err != nil && !errors.Is(err, ErrStale) {
			return nil, err
		}
	}
	if in.Stop != nil {
		out := s.outcome(in.Stop.Status, in.Stop.Reason)
		return &out, nil
	}
	return nil, nil
}
