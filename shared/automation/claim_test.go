package automation_test

import (
	"context"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// An automation is claimed under its lock: if a person disables it at the same time, it does not
// run, and its next time stays.
func TestWhatIsDisabledMeanwhileIsNotClaimed(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		a := w.hourly(t, "digest")
		w.Skew.Advance(90 * time.Minute)
		request := lane.Request{Workspace: w.Workspace, Lane: lane.Automation(a.ID), Holder: "beat"}
		hold, err := w.lanes.Acquire(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		done, runs, claimed := make(chan struct{}), false, error(nil)
		err = w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			if _, _, err := w.s.Disable(ctx, tx, a, skill.Human, "not now"); err != nil {
				return err
			}
			go func() {
				defer close(done)
				claimed = w.lanes.InHold(t.Context(), hold, func(ctx context.Context, tx lane.Tx) (err error) {
					_, runs, err = w.s.Claim(ctx, tx, a.ID)
					return err
				})
			}()
			dbtest.AwaitBlocked(ctx, t, w.DB.Dialect(), tx, done)
			return nil
		})
		<-done
		if err != nil || claimed != nil || runs {
			t.Errorf("it runs: %v, %v (%v)", runs, claimed, err)
		}
		if now := w.get(t, a.ID); now.Enabled || now.DisabledReason != "not now" || now.NextRunAt != nil {
			t.Errorf("it is %+v", now)
		}
	})
}
