package turn

import (
	"context"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// waits are what the calls of an execution wait for, as they stood when its lane was taken.
type waits struct {
	*Runner
	ids   []string
	found []*[]approval.Approval
}

func (r *Runner) waitsOf(e execution.Execution) *waits {
	return &waits{Runner: r, ids: r.replyOf(e).Approvals} // none, unless it is waiting
}

func (w *waits) look(b *db.Batch) {
	w.found = nil
	for _, id := range w.ids {
		w.found = append(w.found, w.Approvals.Look(b, id))
	}
}

// enter finds nothing to do where the execution has ended, or nothing was decided of what
// it waits for.
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
