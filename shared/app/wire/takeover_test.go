package wire_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// The holds and claims of a dead process are released at once, in all workspaces. A live process
// keeps its own.
func TestWhatADeadProcessHadIsGivenBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		a, _ := newAgent(t, e)
		other := dbtest.NewWorkspace(t, e.DB)
		dead := func(holder string) bool { return strings.Contains(holder, "gone-1") }
		turnID := "0193a1f0-0000-7000-8000-000000000001"
		for _, ws := range []db.Workspace{e.Workspace, other} {
			for name, holder := range map[lane.Name]lane.Holder{
				lane.Operate: "operate/gone-1/op_x", lane.Execution(turnID): "operate/gone-1/op_x",
				lane.Execution("0193a1f0-0000-7000-8000-000000000002"): "operate/gone-1/op_y", // this turn never began
				lane.Heartbeat: "heartbeat/here-2/hb_x",
			} {
				if _, err := a.Lanes.Acquire(t.Context(), lane.Request{Workspace: ws, Lane: name, Holder: holder}); err != nil {
					t.Fatal(err)
				}
			}
			begun := execution.Execution{ID: turnID, Agent: "operator", Surface: trace.Operate, Trace: "op_0mh8c1v2q_a7x2p1k9d4"}
			if err := e.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error {
				_, err := a.Runs.Begin(ctx, tx, begun, false)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			var b db.Batch
			for _, key := range []string{"a", "b"} {
				a.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: "late", Key: key, Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
			}
			later := a.Outbox.Enqueue(t.Context(), &b, outbox.Row{
				Kind: outbox.Kick, Topic: "turn", Key: "execution:" + turnID, Trace: "op_0mh8c1v2q_a7x2p1k9d4", Delay: time.Hour,
			})
			if err := e.DB.Do(t.Context(), ws, &b); err != nil {
				t.Fatal(err)
			}
			for _, by := range []string{"outbox gone-1", "outbox here-2"} {
				got, err := a.Outbox.Claim(t.Context(), outbox.Request{Workspace: ws, Topics: []string{"late"}, Holder: by, Limit: 1, Lease: time.Minute})
				if err != nil || len(got) != 1 {
					t.Fatal(got, err)
				}
			}
			defer func() {
				row, err := a.Outbox.Get(t.Context(), ws, later)
				if err != nil || row.DueAt.After(row.UpdatedAt) {
					t.Errorf("the turn is due at %s, as of %s: %v", row.DueAt, row.UpdatedAt, err)
				}
			}()
		}
		got, err := a.GiveBack(t.Context(), dead)
		if want := (wire.GivenBack{Lanes: 6, Rows: 2, Turns: 2}); err != nil || got != want {
			t.Fatalf("given back %+v, want %+v: %v", got, want, err)
		}
		for _, ws := range []db.Workspace{e.Workspace, other} {
			held, err := a.Lanes.List(t.Context(), ws, 10)
			if err != nil || len(held) != 1 || held[0].Lane != lane.Heartbeat {
				t.Errorf("held: %+v, %v", held, err)
			}
			again, err := a.Outbox.Claim(t.Context(), outbox.Request{Workspace: ws, Topics: []string{"late"}, Holder: "next", Limit: 9, Lease: time.Minute})
			if err != nil || len(again) != 1 || again[0].Attempt != 2 {
				t.Errorf("claimed again: %+v, %v", again, err)
			}
		}
		if got, err := a.GiveBack(t.Context(), dead); err != nil || got != (wire.GivenBack{}) {
			t.Errorf("then %+v, %v", got, err)
		}
	})
}

// The work that was left is tried once before the channel is closed.
func TestWhatWasLeftIsTakenUp(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, _ := newAgent(t, e)
	var b db.Batch
	a.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: "late", Key: "a", Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
	if err := e.DB.Do(t.Context(), e.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	h := hanging{on: e.Workspace, began: make(chan db.Workspace, 1), end: make(chan struct{})}
	a.Sender.Handlers["late"] = h
	var working sync.WaitGroup
	background := func(fn func(context.Context)) { working.Go(func() { fn(t.Context()) }) }
	_, taken, err := a.TakeUp(t.Context(), func(string) bool { return false }, background)
	if err != nil {
		t.Fatal(err)
	}
	<-h.began
	select {
	case <-taken:
		t.Error("it is closed before the row was handled")
	default:
	}
	close(h.end)
	<-taken
	working.Wait()
}
