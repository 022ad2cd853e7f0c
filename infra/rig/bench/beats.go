package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// heartbeats measures the database load of an idle beat, with a short and with a long activity log.
func heartbeats(ctx context.Context, _ int) ([]Row, error) {
	d, _, stop, err := database(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	core := &app.Core{
		DB: d, Clock: time.Now, Log: slog.New(slog.DiscardHandler), Traces: trace.NewSource(time.Now, rand.Reader),
		IDs: func() string { return uuid.Must(uuid.NewV7()).String() },
	}
	h, err := wire.NewHeartbeat(core, "bench", nil, nil)
	if err != nil {
		return nil, err
	}
	idle, err := costOf(ctx, d, h)
	if err != nil {
		return nil, err
	}
	for range 500 {
		if _, err := costOf(ctx, d, h); err != nil {
			return nil, err
		}
	}
	later, err := costOf(ctx, d, h)
	return []Row{
		{Name: "idle beat: round trips", Value: float64(idle.RoundTrips), Limit: 3},
		{
			Name: "idle beat: statements", Value: float64(idle.Statements + idle.RoundTrips), Limit: 12,
			Detail: fmt.Sprintf("%d after 500 more beats; those that enter its transactions, of a round trip each, among them",
				later.Statements+later.RoundTrips),
		},
	}, err
}

func costOf(ctx context.Context, d *db.DB, h *heartbeat.Heartbeat) (db.Stats, error) {
	before := d.Stats()
	r, err := h.Run(ctx, heartbeat.Tick{Workspace: workspace.Default})
	if err == nil && r.Outcome != heartbeat.Idle {
		err = fmt.Errorf("the beat was %s: %s", r.Outcome, r.Reason)
	}
	return d.Stats().Sub(before), err
}
