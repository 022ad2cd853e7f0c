package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/surface/coordinator"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// A Coordinator is an HTTP handler that also runs cycles.
type Coordinator interface {
	http.Handler
	// Run runs the cycles of a tick. Their work may continue in the sandbox's background.
	Run(context.Context, coordinator.Tick) (coordinator.Report, error)
}

// StartCoordinator serves HTTP requests, as [Sandbox.StartHTTP] does, and the events of the coordinator's
// schedule; see [DecodeCycle]. The report of the cycles is the response to such an event. An error means
// that cycles failed: Lambda moves the event to the dead-letter queue, and the next minute's does the rest. It is
// called by functions/coordinator.
func (s *Sandbox) StartCoordinator(build func(*app.Core) (Coordinator, error)) error {
	return s.start(lambda.NewHandler(s.coordinator(build)))
}

func (s *Sandbox) coordinator(build func(*app.Core) (Coordinator, error)) func(context.Context, json.RawMessage) (io.Reader, error) {
	open := newOpener(s, func(core *app.Core) (http.Handler, error) { return build(core) })
	serve := s.requests(open)
	return func(ctx context.Context, payload json.RawMessage) (io.Reader, error) {
		if isRequest(payload) || isTend(payload) {
			return serve(ctx, payload)
		}
		answer, failed := s.guarded(ctx, func() (any, error) { return s.cycle(ctx, open, payload) })
		if failed != nil {
			return nil, *failed
		}
		raw, err := json.Marshal(answer)
		return bytes.NewReader(raw), err
	}
}

// isRequest reports whether an event is an HTTP request.
func isRequest(payload []byte) bool {
	var e struct {
		RequestContext json.RawMessage `json:"requestContext"`
	}
	return json.Unmarshal(payload, &e) == nil && len(e.RequestContext) > 0
}

// cycle runs the cycles of an event, and waits for what they leave to the background.
func (s *Sandbox) cycle(ctx context.Context, open *opener[http.Handler], payload []byte) (any, error) {
	tick, err := DecodeCycle(payload)
	if err != nil {
		return nil, err
	}
	ctx = s.invoked(ctx)
	rest, cancel := reserved(ctx)
	defer cancel()
	s.background.enter(rest)
	defer s.measured(ctx)
	defer s.background.working.Wait()
	return open.do(ctx, func(o *opened[http.Handler]) (any, error) {
		c, ok := o.with.(Coordinator)
		if !ok {
			return nil, errors.New("the handler runs no cycles")
		}
		return c.Run(ctx, tick)
	})
}

// DecodeCycle reads an event of the coordinator's schedule, of its own fan-out, or of a person. The
// events have the forms of the heartbeat's; see [DecodeTick]. "full" is unknown. Any other event returns
// an [EventError].
func DecodeCycle(payload []byte) (coordinator.Tick, error) {
	t, err := DecodeTick(payload)
	if err == nil && t.Full {
		err = &EventError{Field: "full", Problem: "is unknown"}
	}
	if err != nil {
		return coordinator.Tick{}, err
	}
	return coordinator.Tick{Workspace: t.Workspace, Slot: t.Slot}, nil
}

// KickCycle starts an invocation for one workspace's part of a tick and does not wait for it. It is the
// coordinator's fan-out. If a kick is lost, the next tick of the schedule serves the workspace.
func (s *Sandbox) KickCycle(ctx context.Context, t coordinator.Tick) error {
	payload, err := encodeTick(heartbeat.Tick{Workspace: t.Workspace, Slot: t.Slot})
	if err != nil {
		return fmt.Errorf("kick workspace %s: %w", t.Workspace, err)
	}
	if err := s.invoke(ctx, s.cfg.Function, payload); err != nil {
		return fmt.Errorf("kick workspace %s: %w", t.Workspace, err)
	}
	return nil
}
