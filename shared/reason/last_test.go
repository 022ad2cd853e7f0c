package reason

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// TestASettleLeavesTimeForTheRecords: a settle after the end of its run leaves time for the
// records, whenever it began. During the run it has a time limit of its own.
func TestASettleLeavesTimeForTheRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, cut := context.WithCancel(t.Context())
		run, end := lane.WithLastWrites(over)
		defer end()
		lasts := func(what string, ctx context.Context, cancel context.CancelFunc, want time.Duration) {
			t.Helper()
			defer cancel()
			begun := time.Now()
			if <-ctx.Done(); time.Since(begun) != want {
				t.Errorf("%s lasts %s, want %s", what, time.Since(begun), want)
			}
		}
		settle, cancel := lastSettle(run)
		lasts("a settle within the run", settle, cancel, settleLimit)
		settle, cancel = lastSettle(run)
		time.Sleep(time.Second)
		cut()
		record, done := lane.LastWrites(run)
		lasts("a settle in whose midst the run ends", settle, cancel, settleShare)
		settle, cancel = lastSettle(run)
		lasts("one behind the end", settle, cancel, settleShare)
		lasts("a record", record, done, 5*time.Second-2*settleShare)
	})
}
