package turn_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// dies returns an answer during which the process loses all its lanes, so that it can write nothing
// afterwards.
func (w *world) dies(t testing.TB) llmtest.Writing {
	return func(context.Context, llm.Request, func(string)) (llm.Response, error) {
		open := must(w.Lanes.List(context.Background(), w.Workspace, 10))(t)
		for _, held := range open {
			err := w.Env.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.Lanes.ForceRelease(ctx, tx, held.Lane)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		return llmtest.Written("Never heard."), nil
	}
}

// TestAPoisonTurnIsGivenUp: after five attempts that ended their process, the turn fails and the
// person gets a message.
func TestAPoisonTurnIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, slices.Repeat([]llmtest.Writing{w.dies(t)}, 5)...))
		r := w.said(t, turn.Turn{Message: "Hello."})
		if r.Status != execution.Parked {
			t.Fatalf("cut off, it is %+v", r)
		}
		for range 10 {
			w.drain(t)
			w.Skew.Advance(time.Hour)
		}
		if e := w.execution(t, r.Execution); e.Status != execution.Failed || e.Attempt != 5 || e.Error != "given up: it was cut off in attempt 5" {
			t.Errorf("it is %+v", e)
		}
		if got := w.spoken(t, r.Thread); !slices.Equal(got, []string{"user: Hello.", "assistant: (stopped: it was cut off in attempt 5)"}) {
			t.Errorf("the thread is %q", got)
		}
		if told := w.actions(t, "operate"); len(told) != 1 || told[0].Status != activity.Error {
			t.Errorf("the log says %+v", told)
		}
		w.mustBeFree(t)
	})
}

// TestAKickForATurnThatStillWaitsTakesNoFurtherLane: the approvals of the turn are read together
// with the acquire of its own lane.
func TestAKickForATurnThatStillWaitsTakesNoFurtherLane(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), llmtest.Writes("It waits.")))
		r := w.said(t, turn.Turn{Message: "Pay."})
		before := must(w.Lanes.Peek(t.Context(), w.Workspace, lane.Operate))(t)
		payload := must(json.Marshal(map[string]string{"execution": r.Execution}))(t)
		cost := w.Env.DB.Stats()
		if err := w.Handle(t.Context(), outbox.Claimed{Workspace: w.Workspace, Row: outbox.Row{Payload: payload}}); err != nil {
			t.Error(err)
		}
		if got := w.Env.DB.Stats().Sub(cost); got.RoundTrips != 3 { // the execution, the lane with the approval, the release
			t.Errorf("it takes %+v", got)
		}
		after := must(w.Lanes.Peek(t.Context(), w.Workspace, lane.Operate))(t)
		if e := w.execution(t, r.Execution); e.Status != execution.Waiting || e.Attempt != 1 || after.Fence != before.Fence {
			t.Errorf("it is %+v, lane operate %+v", e, after)
		}
		w.mustBeFree(t)
	})
}

// TestACutOffTurnParksInOneTransaction: the transaction has its end, its kick, and the release of
// both lanes.
func TestACutOffTurnParksInOneTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ctx, end := context.WithCancel(t.Context())
		var before db.Stats
		w.think(llmtest.Write(t, func(ctx context.Context, _ llm.Request, _ func(string)) (llm.Response, error) {
			end()
			<-ctx.Done()
			before = w.Env.DB.Stats()
			return llm.Response{}, llm.Interrupted(ctx, "script")
		}))
		r, err := w.Talk(ctx, w.Workspace, turn.Turn{Message: "Hello.", By: "user:ada"})
		if got := w.Env.DB.Stats().Sub(before); err != nil || r.Status != execution.Parked || got.RoundTrips != 1 {
			t.Errorf("it is %+v, %v, and takes %+v", r, err, got)
		}
		w.mustBeFree(t)
	})
}

// TestATurnIsTakenUpAfterItsTries: the processes that claimed its row died before they had its lane, as often as the
// row has tries.
func TestATurnIsTakenUpAfterItsTries(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, w.dies(t), llmtest.Writes("Hello.")))
		r := w.said(t, turn.Turn{Message: "Hello."})
		for range 20 {
			w.Skew.Advance(10 * time.Minute)
			claimed, err := w.Outbox.Claim(t.Context(), outbox.Request{
				Workspace: w.Workspace, Topics: []string{turn.Topic}, Holder: "test", Limit: 10, Lease: time.Minute,
			})
			if err != nil || len(claimed) != 1 {
				t.Fatalf("claimed %+v, %v", claimed, err)
			}
		}
		w.Skew.Advance(10 * time.Minute)
		w.drain(t)
		if e := w.execution(t, r.Execution); e.Status != execution.Completed {
			t.Errorf("it is %+v", e)
		}
		w.mustBeFree(t)
	})
}
