package api_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/sse"
)

// hand makes ticks by hand for all readers together.
type hand struct {
	ticks   chan time.Time
	readers atomic.Int32 // that have begun
}

func (h *hand) Ticks(time.Duration) (<-chan time.Time, func()) {
	h.readers.Add(1)
	return h.ticks, func() {}
}

// TestManyStreamsCostWhatOneCosts: for 1, 20 and 200 open streams of a workspace the database runs one
// statement a tick, and each stream tells what happens.
func TestManyStreamsCostWhatOneCosts(t *testing.T) {
	for _, n := range []int{1, 20, 200} {
		clock := &hand{ticks: make(chan time.Time)}
		s := newStation(t, onOne(t), sse.Streams{For: time.Hour, Quiet: time.Hour, Clock: clock})
		open := make([]*tuned, n)
		for i := range open {
			open[i] = s.tune(t, "?kinds=activity", "")
			if open[i].next() == nil {
				t.Fatal("a stream has ended")
			}
		}
		s.happen(t, "look")
		before := s.world.Env.DB.Stats().Statements
		var told sync.WaitGroup
		for _, stream := range open {
			told.Go(func() {
				if got := stream.event(); got == nil || got.skill(t) != "look" {
					t.Errorf("a stream told %v", got)
				}
			})
		}
		heard := make(chan struct{})
		go func() { told.Wait(); close(heard) }()
		ticks := 0
		for on := true; on; {
			select {
			case clock.ticks <- time.Time{}:
				ticks++
			case <-heard:
				on = false
			}
		}
		if got := int(s.world.Env.DB.Stats().Statements - before); got > ticks || clock.readers.Load() != 1 {
			t.Errorf("%d streams: %d statements in %d ticks of %d readers", n, got, ticks, clock.readers.Load())
		}
		for _, stream := range open {
			stream.leave()
		}
	}
}
