package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// schedule is a beats that records its beats. Each beat takes the given time.
type schedule struct {
	*beats
	end   context.CancelFunc
	takes time.Duration
	fails error
	skips int // the number of first beats that are skipped
	mu    sync.Mutex
	ticks []string // when, and for which slot
}

func newSchedule(every time.Duration) *schedule {
	s := &schedule{}
	process, end := context.WithCancel(context.Background())
	s.end = end
	s.beats = &beats{process: process, end: end, every: every, log: slog.New(slog.DiscardHandler), run: s.tick}
	return s
}

func (s *schedule) tick(ctx context.Context, t heartbeat.Tick) (heartbeat.Report, error) {
	const clock = "15:04:05"
	slot := "by hand"
	if !t.Slot.IsZero() {
		slot = t.Slot.Format(clock)
	}
	s.mu.Lock()
	s.ticks = append(s.ticks, time.Now().UTC().Format(clock)+" "+slot)
	skipped := len(s.ticks) <= s.skips
	s.mu.Unlock()
	if skipped {
		return heartbeat.Report{Outcome: heartbeat.Skipped}, nil
	}
	select {
	case <-time.After(s.takes):
		return heartbeat.Report{Outcome: heartbeat.Completed}, s.fails
	case <-ctx.Done():
		return heartbeat.Report{Outcome: heartbeat.Parked}, nil
	}
}

// A synctest bubble starts at midnight.

func TestABeatAtOnceThenOneASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(30 * time.Minute)
		time.Sleep(10 * time.Minute)
		s.fails = errors.New("the database is away") // the next tick tries again
		s.working.Go(func() { s.keep(heartbeat.Tick{}, func() {}) })
		time.Sleep(time.Hour)
		s.end()
		s.working.Wait()
		want := []string{"00:10:00 by hand", "00:30:00 00:30:00", "01:00:00 01:00:00"}
		if diff := cmp.Diff(want, s.ticks); diff != "" {
			t.Error(diff)
		}
	})
}

// The work of a dead process is resumed although a resumed turn is in the way of the first beat.
func TestTheFirstBeatIsTriedAgainWhereItIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(30 * time.Minute)
		s.skips = 3
		s.working.Go(func() { s.keep(heartbeat.Tick{}, func() {}) })
		time.Sleep(time.Hour)
		s.end()
		s.working.Wait()
		want := []string{
			"00:00:00 by hand", "00:00:05 by hand", "00:00:15 by hand", "00:00:35 by hand", "00:30:00 00:30:00", "01:00:00 01:00:00",
		}
		if diff := cmp.Diff(want, s.ticks); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTicksMissedDuringABeatAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(time.Minute)
		s.takes = 150 * time.Second
		s.working.Go(func() { s.keep(heartbeat.Tick{}, func() {}) })
		time.Sleep(7 * time.Minute)
		s.end()
		s.working.Wait()
		want := []string{"00:00:00 by hand", "00:03:00 00:03:00", "00:06:00 00:06:00"}
		if diff := cmp.Diff(want, s.ticks); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheProcessEndsItsBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(time.Hour)
		s.takes = time.Hour
		var report heartbeat.Report
		s.background(func(ctx context.Context) { report, _ = s.beat(ctx, heartbeat.Tick{}) })
		asked, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.working.Go(func() { _, _ = s.beat(asked, heartbeat.Tick{}) }) // a request that waits
		synctest.Wait()
		s.end()
		s.working.Wait()
		if report.Outcome != heartbeat.Parked {
			t.Errorf("the beat ended as %q", report.Outcome)
		}
	})
}

func TestAPanicIsTheBeatsError(t *testing.T) {
	s := newSchedule(time.Hour)
	defer s.end()
	s.run = func(context.Context, heartbeat.Tick) (heartbeat.Report, error) { panic("index out of range") }
	_, err := s.beat(t.Context(), heartbeat.Tick{})
	if err == nil || err.Error() != "the beat panicked: index out of range" {
		t.Errorf("got error %v", err)
	}
}
