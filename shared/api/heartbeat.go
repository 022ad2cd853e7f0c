package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// beatWait is how long a heartbeat by hand waits for its lane, and for the end of a turn with the
// agent.
const beatWait = time.Minute

type beatInput struct {
	Body *struct {
		Wait bool `json:"wait,omitempty" doc:"Answer when the beat has ended, with its report, instead of at once"`
	}
}

// beatAnswer names a heartbeat. The report is set only if the heartbeat has ended.
type beatAnswer struct {
	Report      *heartbeat.Report `json:"report,omitempty"`
	ExecutionID string            `json:"executionId"`
	TraceID     trace.ID          `json:"traceId" doc:"Its story is at /api/v1/traces/{traceId} as soon as it has begun"`
}

type beatOutput struct {
	Status int
	Body   beatAnswer
}

// runHeartbeat runs a heartbeat with all its phases. With wait it also waits for the heartbeat's
// lane, and returns 200 with the report. Without, it returns 202 when the heartbeat has begun, and
// the heartbeat continues in the background. It is called by the Engine Room, by lanekeeper trigger
// heartbeat and by scripts.
func (s *server) runHeartbeat(ctx context.Context, in *beatInput) (*beatOutput, error) {
	id, _ := trace.From(ctx)
	tick := heartbeat.Tick{Workspace: workspace(ctx), Full: true, Wait: beatWait, ExecutionID: s.newID(ctx), Trace: id}
	named := beatAnswer{ExecutionID: tick.ExecutionID, TraceID: tick.Trace}
	wait := in.Body != nil && in.Body.Wait
	if claimedID(ctx) != "" { // an earlier execution of the same request may have begun it
		e, err := s.Runs.Get(ctx, tick.Workspace, tick.ExecutionID)
		switch {
		case errors.Is(err, db.ErrNoRows):
		case err != nil:
			return nil, err
		case !wait:
			named.TraceID = e.Trace
			return &beatOutput{http.StatusAccepted, named}, nil
		case e.Status.Ended():
			return nil, doneBy(e.ID)
		}
	}
	if !wait {
		tick.Wait, tick.Begun = 0, make(chan struct{})
		ended := make(chan error, 1)
		s.Background(func(ctx context.Context) { ended <- s.beatLater(ctx, tick) })
		select {
		case <-tick.Begun:
		case err := <-ended:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &beatOutput{http.StatusAccepted, named}, nil
	}
	report, err := s.Beat(ctx, tick)
	if err != nil {
		return nil, err
	}
	if report.Outcome == heartbeat.Skipped {
		return nil, s.skipped(ctx, tick.Workspace, report)
	}
	named.Report = &report
	named.ExecutionID = cmp.Or(report.ExecutionID, named.ExecutionID)
	named.TraceID = cmp.Or(trace.ID(report.TraceID), named.TraceID)
	return &beatOutput{http.StatusOK, named}, nil
}

// beatLater runs a heartbeat in the background and logs how it ends. It returns an error if the
// heartbeat failed or was skipped.
func (s *server) beatLater(ctx context.Context, tick heartbeat.Tick) (err error) {
	ctx = trace.WithWorkspace(trace.With(ctx, tick.Trace), string(tick.Workspace))
	defer func() {
		if thrown := recover(); thrown != nil {
			s.Log.ErrorContext(ctx, "a beat by hand panicked", "panic", fmt.Sprint(thrown), "stack", string(debug.Stack()))
			err = internal
		}
	}()
	report, err := s.Beat(ctx, tick)
	if err != nil {
		s.Log.ErrorContext(ctx, "a beat by hand failed", "error", err)
		return err
	}
	if report.Outcome == heartbeat.Skipped {
		return s.skipped(ctx, tick.Workspace, report)
	}
	return nil
}

// skipped returns the problem for a skipped heartbeat. It names either the kill switch that stops
// heartbeats or the holder of the lane.
func (s *server) skipped(ctx context.Context, ws db.Workspace, report heartbeat.Report) error {
	why := "the beat was skipped: " + report.Reason
	if report.Holder == "" {
		return problem.New(http.StatusConflict, "stopped", why)
	}
	var b db.Batch
	lanes := []*lane.Info{s.Lanes.PeekIn(&b, lane.Operate), s.Lanes.PeekIn(&b, lane.Heartbeat)}
	if err := s.DB.Read(ctx, ws, &b); err != nil {
		return err
	}
	inTheWay := lane.Info{Holder: lane.Holder(report.Holder)}
	for _, l := range lanes {
		if l.Held() && l.Holder == inTheWay.Holder {
			inTheWay = *l
		}
	}
	p := busy(inTheWay)
	p.Detail = why
	if !inTheWay.Held() { // it was released meanwhile
		p.ExpiresAt = nil
	}
	return p
}
