package reason

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/lane"
)

const (
	// settleLimit is the time limit of one settle.
	settleLimit = 4 * time.Second
	// settleShare is how long a settle may outlive the run. The rest of the last writes' time is
	// for the records.
	settleShare = 1500 * time.Millisecond
)

// lastSettle returns a context for settling the usage of a model call. It is one of the run's last
// writes and leaves time for the records after it.
func lastSettle(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := lane.LastWritesWithin(ctx, settleLimit)
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(settleShare, cancel)
		context.AfterFunc(last, func() { timer.Stop() })
	})
	return last, func() { stop(); cancel() }
}
