package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// A Beat runs one tick: the method Run of a heartbeat.
type Beat func(context.Context, heartbeat.Tick) (heartbeat.Report, error)

// StartHeartbeat serves the heartbeat's events with the beat that build makes from the core. Every
// beat that runs is a success, and its report is the response. An error means that the function failed:
// Lambda retries the event and then moves it to the dead-letter queue. It is called by
// functions/heartbeat.
func (s *Sandbox) StartHeartbeat(build func(*app.Core) (Beat, error)) error {
	return s.start(s.heartbeat(build))
}

func (s *Sandbox) heartbeat(build func(*app.Core) (Beat, error)) handler {
	open := newOpener(s, build)
	return s.handle(func(ctx context.Context, payload []byte) (any, error) {
		tick, err := DecodeTick(payload)
		if err != nil {
			return nil, err
		}
		return open.do(ctx, func(o *opened[Beat]) (any, error) { return o.with(ctx, tick) })
	})
}

const (
	maxEvent       = 256 << 10 // Lambda's limit for an asynchronous event, in bytes
	scheduleSource = "lanekeeper.schedule"
)

// DecodeTick reads an event of the heartbeat:
//
//	{"source": "lanekeeper.schedule", "slot": "2026-11-20T10:30:00Z"}      EventBridge Scheduler, as the template sets it up
//	{"source": "aws.scheduler", "detail-type": "Scheduled Event", "time": …}  EventBridge Scheduler without an Input
//	{"source": "aws.events", "detail-type": "Scheduled Event", "time": …}  an EventBridge rule
//	{"workspace": "…", "slot": "…"}                                        the heartbeat's own fan-out
//	{"by": "hand"}, {}                                                     a person, who may name a workspace, and ask for "full": true
//
// Any other event returns an [EventError].
func DecodeTick(payload []byte) (heartbeat.Tick, error) {
	if len(payload) > maxEvent {
		return heartbeat.Tick{}, &EventError{Problem: fmt.Sprintf("is larger than %d bytes", maxEvent)}
	}
	all, err := fields(payload)
	if err != nil {
		return heartbeat.Tick{}, err
	}
	e := event{fields: all}
	var t heartbeat.Tick
	switch source := e.text("source"); source {
	case "":
		e.ours(&t)
	case scheduleSource:
		t.Slot = e.slot("slot", true)
	case "aws.events", "aws.scheduler":
		e.rule(&t)
	default:
		e.fail("source", "is unknown: "+scheduleSource+", aws.scheduler and aws.events are known")
	}
	if err := e.rest(); err != nil {
		return heartbeat.Tick{}, err
	}
	return t, nil
}

// ours reads an event that the heartbeat's fan-out or a person sent.
func (e *event) ours(t *heartbeat.Tick) {
	t.Workspace = e.workspace()
	t.Slot = e.slot("slot", false)
	t.Full = e.flag("full")
	if by := e.text("by"); by != "" && by != "hand" {
		e.fail("by", "is unknown: hand is known")
	} else if by != "" && !t.Slot.IsZero() {
		e.fail("slot", "does not go with an event by hand")
	}
	if t.Workspace == "" && !t.Slot.IsZero() {
		e.fail("workspace", "is missing")
	}
}

// rule reads an event of an EventBridge rule, or of a schedule without an Input.
func (e *event) rule(t *heartbeat.Tick) {
	if e.text("detail-type") != "Scheduled Event" {
		e.fail("detail-type", "is not Scheduled Event")
	}
	t.Slot = e.slot("time", true)
	for _, name := range []string{"version", "id", "account", "region", "resources", "detail", "replay-name"} {
		delete(e.fields, name)
	}
}

// encodeTick returns the fan-out's event for a tick. DecodeTick reads it.
func encodeTick(t heartbeat.Tick) ([]byte, error) {
	out := struct {
		Workspace db.Workspace `json:"workspace"`
		Slot      string       `json:"slot,omitempty"`
		By        string       `json:"by,omitempty"`
		Full      bool         `json:"full,omitempty"`
	}{Workspace: t.Workspace, Full: t.Full}
	if t.Slot.IsZero() {
		out.By = "hand"
	} else {
		out.Slot = t.Slot.UTC().Format(time.RFC3339)
	}
	return json.Marshal(out)
}
