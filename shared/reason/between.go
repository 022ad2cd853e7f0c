package reason

import (
	"context"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Interim is what has come between two steps of a run. The zero value is nothing.
type Interim struct {
	Messages []llm.Message // join the conversation before the model is asked next
	// Trust is whose words they are; empty: the operator's.
	Trust execution.Trust
	// Also, where there are messages, writes in the transaction that adds them to the
	// journal: it marks them as read, where they came from. It may run and be rolled back.
	Also func(context.Context, lane.Tx) error
	// Stop ends the run, once the messages are in the journal; nil: it goes on.
	Stop *Stopped
}

// between takes what has come since the last step into the journal: a run that is killed
// afterwards goes on with it. An Outcome ends the run. Before the first step nothing is
// asked: what a run begins with is its messages.
func (r *Runner) between(ctx context.Context, job Job, s *state) (*Outcome, error) {
	if job.Between == nil || s.Steps == 0 {
		return nil, nil
	}
	in, err := job.Between(ctx, s.Progress)
	if err != nil {
		return nil, err
	}
	if len(in.Messages) > 0 {
		err := r.appendWith(ctx, job, s, execution.Input, in.Trust, inputBody{Messages: in.Messages}, nil, in.Also)
		if err != nil {
			return nil, err
		}
	}
	if in.Stop != nil {
		out := s.outcome(in.Stop.Status, in.Stop.Reason)
		return &out, nil
	}
	return nil, nil
}
