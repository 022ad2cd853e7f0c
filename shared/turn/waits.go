package turn

import (
	"context"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// waits holds the approvals that an execution waits for, as they were when its lane was acquired.
type waits struct {
	*Runner
	ids   []string
	found []*[]approval.Approval
}

func (r *Runner) waitsOf(e execution.Execution) *waits {
	return &waits{Runner: r, ids: r.replyOf(e).Approvals} // empty unless the execution waits
}

func (w *waits) look(b *db.Batch) {
	w.found = nil
	for _, id := range w.ids {
		w.found = append(w.found, w.Approvals.Look(b, id))
	}
}

// enter returns [work.ErrNothing] if the execution has ended, or if none of its approvals is
// decided.
func (w *waits) enter(_ context.Context, e *work.Entry) error {
	if len(e.Open) == 0 {
		return work.ErrNothing
	}
	if ids := w.replyOf(e.Open[0]).Approvals; len(ids) == 0 || !slices.Equal(ids, w.ids) {
		return nil
	}
	for _, found := range w.found {
		for _, a := range *found {
			if text, _ := decided(a); text != "" {
				return nil
			}
		}
	}
	return work.ErrNothing
}
