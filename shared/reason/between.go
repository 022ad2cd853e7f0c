package reason

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// ErrStale is the error of [Interim.Also] that has the run ask again: what has come is
// there no more, or has changed.
var ErrStale = errors.New("what has come between two steps has changed")

// Interim is what has come before a step of a run. The zero value is nothing.
type Interim struct {
	Messages []llm.Message // join the conversation before the model is asked next
	// Trust is whose words they are; empty: the operator's.
	Trust execution.Trust
	// Also, where there are messages, writes in the transaction that adds them to the
	// journal: it marks them as read, where they came from. It may run and be rolled back.
	Also func(context.Context, lane.Tx) error
	// Beside are lanes that are not the run's and whose holds Also ends.
	Beside []lane.Name
	// Stop ends the run, once the messages are in the journal; nil: it goes on.
	Stop *Stopped
}

// between takes what has come since the last step into the journal: a run that is killed
// afterwards goes on with it. An Outcome ends the run.
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
