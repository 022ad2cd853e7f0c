package reason

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/lane"
)

const (
	// settleLimit bounds one settle.
	settleLimit = 4 * time.Second
	// settleShare is how long it may outlive the run: it leaves time for the records.
	settleShare = 1500 * time.Millisecond
)

// lastSettle is a context in which what a call of the model used is counted. It is among the
// last writes of a run, and leaves time for the records behind it.
func lastSettle(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := lane.LastWritesWithin(ctx, settleLimit)
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(settleShare, cancel)
		context.AfterFunc(last, func() { timer.Stop() })
	})
	return last, func() { stop(); cancel() }
}
