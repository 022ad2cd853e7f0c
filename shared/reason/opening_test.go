package reason_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// TestNothingIsToldBeforeTheRunIsRecorded: a run asks its model while its first entry is committed. It
// tells nothing before the commit, and nothing at all when its lane is lost.
func TestNothingIsToldBeforeTheRunIsRecorded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, lost := range []bool{false, true} {
			job := w.job(t)
			job.Overlaps = true
			var told []string
			job.Delta = func(ctx context.Context, d llm.Delta) {
				told = append(told, d.Text)
				if entries, err := w.runs.Journal(ctx, w.Workspace, job.Execution.ID, 0); err != nil || len(entries) != 1 {
					t.Errorf("it tells %q while its journal has %d entries, %v", d.Text, len(entries), err)
				}
			}
			var recorded []execution.Kind
			job.Recorded = func(entries []execution.Entry) {
				for _, e := range entries {
					recorded = append(recorded, e.Kind)
				}
			}
			if lost {
				err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
					_, err := w.lanes.ForceRelease(ctx, tx, job.Hold.Lane)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			out, err := w.runner(llmtest.Write(t, llmtest.Writes("Good day."))).Run(job.Under(t.Context()), job)
			switch {
			case lost && (!errors.Is(err, lane.ErrLost) || len(told)+len(recorded) > 0):
				t.Errorf("with a lost lane it tells %q, records %v and returns %v", told, recorded, err)
			case !lost && (err != nil || out.Answer != "Good day." || len(told) == 0 || len(recorded) != 2 || recorded[0] != execution.Input):
				t.Errorf("it tells %q, records %v and returns %+v, %v", told, recorded, out, err)
			}
		}
	})
}
