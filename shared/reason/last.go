package reason

import (
	"context"
	"time"
)

const (
	// lastWriteLimit is how long the records of a run may outlive it, all together.
	lastWriteLimit = 3 * time.Second
	// settleShare is the part of it that settling may take before the records.
	settleShare = lastWriteLimit / 2
	// settleLimit bounds one settle.
	settleLimit = 4 * time.Second
)

// ends are the contexts in which a run's last writes end, however many there are.
type ends struct{ settle, record context.Context }

type endsKey struct{}

// withEnds has all last writes under a run's context end together. It must be cancelled.
func withEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	settle, cancelSettle := outlive(ctx, settleShare)
	record, cancelRecord := outlive(ctx, lastWriteLimit)
	return context.WithValue(ctx, endsKey{}, ends{settle, record}), func() { cancelSettle(); cancelRecord() }
}

// LastWrite is a context in which what has happened is recorded: it outlives ctx by some
// seconds, whenever that ends or has ended. Within a run it ends with the others of that
// run. It must be cancelled.
func LastWrite(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := outlive(ctx, lastWriteLimit)
	end, ok := ctx.Value(endsKey{}).(ends)
	if !ok {
		return last, cancel
	}
	return endingWith(end.record, last, cancel)
}

// lastSettle is a context in which what a call of the model used is counted. It leaves
// time for the records behind it.
func lastSettle(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	end, ok := ctx.Value(endsKey{}).(ends)
	if !ok {
		return last, cancel
	}
	return endingWith(end.settle, last, cancel)
}

// endingWith ends a context also when another ends.
func endingWith(end, ctx context.Context, cancel context.CancelFunc) (context.Context, context.CancelFunc) {
	stop := context.AfterFunc(end, cancel)
	return ctx, func() { stop(); cancel() }
}

// outlive is a context that ends some time after ctx, or from now where that has ended.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), by)
	}
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if deadline, ok := ctx.Deadline(); ok {
		last, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(by))
	}
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-last.Done():
		}
	})
	return last, func() { stop(); cancel() }
}
