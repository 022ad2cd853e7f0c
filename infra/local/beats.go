package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// beats runs the background work of this process.
type beats struct {
	process context.Context // ends when the process is to end
	end     func()          // ends it
	broken  chan error      // receives at most one reason why the process cannot continue
	run     func(context.Context, heartbeat.Tick) (heartbeat.Report, error)
	every   time.Duration // at least a minute
	log     *slog.Logger
	working sync.WaitGroup
	sending atomic.Int32 // looks for what is due of tasks that are under way
}

// beat runs one beat. When ctx or the process ends, the beat parks at its next step. A panic
// becomes an error.
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

// drained is closed when the process is to end; nil if nothing ends it.
func (b *beats) drained() <-chan struct{} {
	if b.process == nil {
		return nil
	}
	return b.process.Done()
}

// background runs fn after the response to a request.
func (b *beats) background(fn func(context.Context)) {
	b.working.Go(func() { fn(b.process) })
}

// firstPatience is how long the first beat waits for the work that is resumed at the start, since a
// resumed turn has priority.
const firstPatience = time.Minute

// await waits until done is closed or the process is to end, for at most firstPatience.
func (b *beats) await(done <-chan struct{}) {
	timer := time.NewTimer(firstPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-b.process.Done():
	}
}

// A skipped first beat is retried after this delay, which doubles each time.
const (
	firstAgain   = 5 * time.Second
	longestAgain = 40 * time.Second
)

// keep runs a beat at once and then one for each slot, until the process is to end. The first beat
// belongs to no slot. It runs after each start and resumes unfinished work. If a resumed turn is in
// its way, it is retried. keep calls then after the first beat.
func (b *beats) keep(first heartbeat.Tick, then func()) {
	skipped := b.report(first)
	then()
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

// tend calls fn every so often until the process is to end.
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

// next returns the schedule's first time after now. That time is the slot. All processes calculate
// the same times, so of two processes on one database only one beats for a slot. Slots that pass
// during a beat are dropped.
func next(now time.Time, every time.Duration) time.Time {
	return now.Truncate(every).Add(every)
}

// report runs a beat and logs what the beat itself does not. It returns whether the beat was
// skipped.
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
