package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	tenant "github.com/lanekeeper/lanekeeper/shared/workspace"
)

// noSpace is the reason why no write succeeds while the disk is full.
const noSpace = "no space is left on the disk of the database"

// checkLimit is the time limit for the check of one component.
const checkLimit = 2 * time.Second

// healthAnswer describes the state of each component. A caller without a role sees the status only.
type healthAnswer struct {
	Status   string `json:"status" enum:"healthy,degraded,unhealthy"`
	Database string `json:"database,omitempty" enum:"connected,down"`
	Valkey   string `json:"valkey,omitempty" enum:"connected,down,disabled"`
	Gateway  string `json:"gateway,omitempty" enum:"reachable,unreachable,disabled"`
	Reason   string `json:"reason,omitempty" doc:"Why it is unhealthy though the database is connected: nothing can be written"`

	Circuits      []circuitItem `json:"circuits,omitempty" doc:"Models that are not asked for now, or on trial; left out: every one is asked"`
	LastHeartbeat *lastBeat     `json:"lastHeartbeat,omitempty" doc:"The beat that began last, skipped ones don't count; left out: there was none"`
}

// lastBeat is the workspace's heartbeat that began last.
type lastBeat struct {
	At         time.Time        `json:"at"`
	AgeSeconds int              `json:"ageSeconds" minimum:"0"`
	Status     execution.Status `json:"status"`
	TraceID    trace.ID         `json:"traceId"`
}

type healthOutput struct {
	Status int
	Body   healthAnswer
}

// health checks each component. It is called by load balancers, alarms and lanekeeper doctor, and
// with a token by the Engine Room. A caller without a role gets a result that may be one second
// old, because anybody may ask, at any rate.
func (s *server) health(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	if by, _ := auth.From(ctx); by.Role == "" { // an unknown caller, an agent, or a site, whose key is public
		out, err := s.checked.get(ctx, s.Clock, s.parts)
		return &healthOutput{out.Status, healthAnswer{Status: out.Body.Status}}, err
	}
	out := s.parts(ctx)
	if out.Body.Database == "connected" {
		s.there(ctx, "agent", func(ctx context.Context) error { return s.pulse(ctx, &out.Body) })
	}
	return &out, nil
}

// parts checks all components at the same time.
func (s *server) parts(ctx context.Context) (out healthOutput) {
	h := healthAnswer{Status: "healthy", Database: "connected", Valkey: "disabled", Gateway: "disabled"}
	var wg sync.WaitGroup
	wg.Go(func() {
		if !s.there(ctx, "database", s.DB.Check) {
			h.Database = "down"
		}
	})
	if s.Gateway != nil {
		h.Gateway = "reachable"
		wg.Go(func() {
			if !s.there(ctx, "gateway", s.Gateway) {
				h.Gateway = "unreachable"
			}
		})
	}
	if s.Valkey != nil {
		h.Valkey = "connected"
		wg.Go(func() {
			if !s.there(ctx, "valkey", s.Valkey) {
				h.Valkey = "down"
			}
		})
	}
	wg.Wait()
	out.Status = http.StatusOK
	switch {
	case h.Database == "down": // nothing works without the database
		h.Status, out.Status = "unhealthy", http.StatusServiceUnavailable
	case s.full(ctx):
		h.Status, h.Reason, out.Status = "unhealthy", noSpace, http.StatusServiceUnavailable
	case h.Valkey == "down", h.Gateway == "unreachable":
		h.Status = "degraded"
	}
	out.Body = h
	return out
}

// checkKept is how long a check is cached for callers without a role.
const checkKept = time.Second

// checked caches the last check. Requests that arrive during a check wait for it and share its
// result.
type checked[T any] struct {
	busy chan struct{} // binary semaphore that guards the state below
	at   time.Time
	last T
}

func newChecked[T any]() *checked[T] { return &checked[T]{busy: make(chan struct{}, 1)} }

// get returns the cached check, or runs a new one if the cached one is too old. The check goes on
// if the client that started it disconnects.
func (c *checked[T]) get(ctx context.Context, clock func() time.Time, check func(context.Context) T) (t T, err error) {
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return t, ctx.Err()
	}
	defer func() { <-c.busy }()
	if age := clock().Sub(c.at); age < 0 || age >= checkKept {
		c.last = check(context.WithoutCancel(ctx))
		c.at = clock()
	}
	return c.last, nil
}

// full reports whether writes fail because the disk of the database is full. After such a failure
// each call tries a write, because space may have been freed.
func (s *server) full(ctx context.Context) bool {
	if !s.DB.Full() {
		return false
	}
	s.there(ctx, "disk", func(ctx context.Context) error {
		hold, err := s.Lanes.Acquire(ctx, lane.Request{Workspace: tenant.Default, Lane: "health", Holder: "health", TTL: checkLimit})
		if err != nil {
			return err
		}
		return s.Lanes.Release(ctx, hold)
	})
	return s.DB.Full()
}

// shownCircuits is the largest number of circuits in the response.
const shownCircuits = 50

// pulse adds the state of the workspace's agent: its circuits and its last heartbeat.
func (s *server) pulse(ctx context.Context, h *healthAnswer) (err error) {
	if h.Circuits, err = s.circuits(ctx, shownCircuits); err != nil {
		return err
	}
	beats, _, err := s.Runs.List(ctx, workspace(ctx), execution.Filter{Surface: trace.Heartbeat, Subject: lane.Heartbeat, Limit: 1})
	if err != nil || len(beats) == 0 {
		return err
	}
	at := beats[0].CreatedAt.UTC()
	h.LastHeartbeat = &lastBeat{at, int(max(0, s.Clock().Sub(at)).Seconds()), beats[0].Status, beats[0].Trace}
	return nil
}

func (s *server) there(ctx context.Context, part string, check func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	err := check(ctx)
	if err != nil {
		s.Log.WarnContext(ctx, "a part is not well", "part", part, "error", err)
	}
	return err == nil
}
