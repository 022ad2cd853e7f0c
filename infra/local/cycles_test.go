package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/surface/coordinator"
)

// TestACycleOfTheScheduleIsNotByHand: the state of the coordinator says why its last cycle ran.
func TestACycleOfTheScheduleIsNotByHand(t *testing.T) {
	var got []coordinator.Tick
	run := func(_ context.Context, tick coordinator.Tick) (coordinator.Report, error) {
		got = append(got, tick)
		return coordinator.Report{}, nil
	}
	c := cycles{log: slog.New(slog.DiscardHandler), clock: time.Now, run: run}
	c.once(t.Context())
	if len(got) != 1 || !got[0].Scheduled || !got[0].Slot.IsZero() {
		t.Errorf("the schedule has run %+v", got)
	}
}
