package reason

import (
	"context"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Checked is the result of a [Job]'s check of an answer.
type Checked struct {
	Text string // takes the place of the answer's text
	// Also writes in the transaction that records the answer; nil: nothing. It may run and be rolled
	// back.
	Also func(context.Context, lane.Tx) error
}

// checked has an answer's text checked, and passes on what may be told of it. A run that is cut off
// before the answer is recorded asks the model and the check again.
func (r *Runner) checked(ctx context.Context, job Job, s *state, resp *llm.Response) (func(context.Context, lane.Tx) error, error) {
	if job.Check == nil || strings.TrimSpace(resp.Text) == "" {
		return nil, nil //nolint:nilnil // there is nothing to check, or to write
	}
	got, err := job.Check(ctx, resp.Text, s.conversation())
	if err != nil {
		s.lost = s.lost.Plus(resp.Used()) // the answer was paid for
		return nil, err
	}
	if got.Text != resp.Text {
		resp.Text = got.Text
		if len(resp.Calls) == 0 { // beside calls, the provider may want it back
			resp.Opaque = nil
		}
	}
	if job.Delta != nil {
		job.Delta(ctx, llm.Delta{Text: resp.Text})
	}
	return got.Also, nil
}
