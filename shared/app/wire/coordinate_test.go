package wire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestAKickIsNotLostWhileACycleRuns: it comes again, and no attempt of it counts. The same holds for one
// that a stop of the process cuts off.
func TestAKickIsNotLostWhileACycleRuns(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		a, _ := newAgent(t, e)
		ctx := trace.With(t.Context(), a.Traces.New(trace.Operate))
		var b db.Batch
		coordinate.Kick(ctx, a.Outbox, &b)
		if err := e.DB.Do(ctx, e.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		hold, err := a.Lanes.Acquire(ctx, lane.Request{Workspace: e.Workspace, Lane: lane.Coordinator, Holder: "another"})
		if err != nil {
			t.Fatal(err)
		}
		sent := func(want outbox.Status) {
			t.Helper()
			if _, err := a.Sender.Drain(context.WithoutCancel(ctx), e.Workspace, 9); err != nil {
				t.Fatal(err)
			}
			rows, _, err := a.Outbox.List(ctx, e.Workspace, outbox.Filter{Topic: coordinate.KickTopic, Limit: 9})
			if err != nil || len(rows) != 1 || rows[0].Status != want || want == outbox.Ready && rows[0].Attempts != 0 {
				t.Fatalf("the kick is %+v, %v; want %s", rows, err, want)
			}
		}
		sent(outbox.Ready)
		stopped, stop := context.WithCancel(ctx)
		stop()
		err = a.Sender.Handlers[coordinate.KickTopic].Handle(stopped, outbox.Claimed{Workspace: e.Workspace})
		if later, ok := errors.AsType[*outbox.LaterError](err); !ok || later.In > time.Second || later.Counts {
			t.Errorf("a process that stops says of its kick: %v", err)
		}
		if err := a.Lanes.Release(ctx, hold); err != nil {
			t.Fatal(err)
		}
		e.Skew.Advance(2 * time.Second)
		sent(outbox.Sent)
	})
}
