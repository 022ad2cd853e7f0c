package automation_test

import (
	"context"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/automation"
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

// An edit keeps the next run of an unchanged schedule, as it stands when the edit is written: a run
// that was claimed after the automation was read does not come again.
func TestAnEditDoesNotRepeatARunThatWasClaimedMeanwhile(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.hourly(t, "digest")
		w.Skew.Advance(90 * time.Minute)
		read := w.get(t, "digest")
		if _, runs := w.claim(t, read.ID); !runs {
			t.Fatal("it is not due")
		}
		next := w.get(t, read.ID).NextRunAt
		name := "summary"
		err := w.tx(t, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.s.Patch(ctx, tx, read, automation.Patch{Name: &name})
			return err
		})
		now := w.get(t, read.ID)
		if err != nil || now.Name != name || now.NextRunAt == nil || !now.NextRunAt.Equal(*next) {
			t.Errorf("the next run was at %v, and is at %v: %v", next, now.NextRunAt, err)
		}
		if _, runs := w.claim(t, read.ID); runs {
			t.Error("it runs again")
		}
	})
}
