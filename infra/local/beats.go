package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// beats runs what works in this process beside the answers to requests.
type beats struct {
	process context.Context // ends when the process is asked to
	end     func()          // ends it
	broken  chan error      // why it can't go on, at most once
	run     func(context.Context, heartbeat.Tick) (heartbeat.Report, error)
	every   time.Duration // a minute at least
	log     *slog.Logger
	working sync.WaitGroup
}

// beat runs one beat, which ends with ctx and with the process: it parks at its
// next step. A panic is the beat's error.
func (b *beats) beat(ctx context.Context, t heartbeat.Tick) (report heartbeat.Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.process, cancel)()
	defer func() {
		if p := recover(); p != nil {
			b.log.DebugContext(ctx, "where the beat panicked", "stack", string(debug.Stack()))
			err = fmt.Errorf("the beat panicked: %v", p)
		}
	}()
	return b.run(ctx, t)
}

// drained is closed when the process is asked to end; nil where nobody asks.
func (b *beats) drained() <-chan struct{} {
	if b.process == nil {
		return nil
	}
	return b.process.Done()
}

// background runs fn beyond the answer to a request.
func (b *beats) background(fn func(context.Context)) {
	b.working.Go(func() { fn(b.process) })
}

// firstPatience is how long the first beat waits for what was taken up at the start:
// a turn that goes on comes before it.
const firstPatience = time.Minute

// await waits until done is closed, for so long, or until the process is to end.
func (b *beats) await(done <-chan struct{}) {
	timer := time.NewTimer(firstPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-b.process.Done():
	}
}

// The first beat is tried again after so long, each time twice as long, where it is skipped.
const (
	firstAgain   = 5 * time.Second
	longestAgain = 40 * time.Second
)

// keep beats at once and then on the schedule, until the process is to end. The
// first beat is nobody's slot: it runs after each start and takes up what was left. Should
// a turn that goes on be in its way, it comes behind that.
func (b *beats) keep(first trace.ID) {
	skipped := b.report(heartbeat.Tick{Trace: first})
	for again, at := firstAgain, next(time.Now(), b.every); skipped && time.Now().Add(again).Before(at); again = min(2*again, longestAgain) {
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
			skipped = b.report(heartbeat.Tick{})
		case <-b.process.Done():
			timer.Stop()
			return
		}
	}
	for b.process.Err() == nil {
		at := next(time.Now(), b.every)
		b.log.InfoContext(b.process, "next beat", "at", at.Format("15:04"))
		timer := time.NewTimer(time.Until(at))
		select {
		case <-timer.C:
			b.report(heartbeat.Tick{Slot: at})
		case <-b.process.Done():
			timer.Stop()
		}
	}
}

// tend calls fn on a ticker until the process is to end.
func (b *beats) tend(every time.Duration, fn func(context.Context)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			fn(b.process)
		case <-b.process.Done():
			return
		}
	}
}

// next is the first time after now that the schedule names, which is a slot. The
// times are the same in every process, so that of two on one database one beats
// for a slot; those that passed while a beat ran are past.
func next(now time.Time, every time.Duration) time.Time {
	return now.Truncate(every).Add(every)
}

// report beats, says what the beat itself does not, and reports whether it was skipped.
func (b *beats) report(t heartbeat.Tick) (skipped bool) {
	report, err := b.beat(b.process, t)
	switch {
	case err != nil && b.process.Err() != nil:
		b.log.InfoContext(b.process, "beat cut short: the next one goes on where it was")
	case err != nil:
		b.log.ErrorContext(b.process, "beat failed", "error", err)
	case report.Outcome == heartbeat.Skipped && report.Holder != "" && report.PutOffTo == nil:
		b.log.InfoContext(b.process, "lane taken", "holder", report.Holder)
	}
	return err == nil && report.Outcome == heartbeat.Skipped
}
