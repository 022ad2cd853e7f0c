package heartbeat_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

type handler func(context.Context)

func (h handler) Handle(ctx context.Context, _ outbox.Claimed) error { h(ctx); return nil }

// enqueue adds an outbox row whose kick was lost.
func (w *world) enqueue(t testing.TB, topic, key string) {
	t.Helper()
	var b db.Batch
	w.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: topic, Key: key, Trace: w.Traces.New(trace.Operate)})
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
}

// TestABeatSendsWhatIsDueAtItsEnd checks that a beat sends after its work and without its lane, in
// time that it has reserved.
func TestABeatSendsWhatIsDueAtItsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var told string
		var work, send time.Time
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			told += tk.Kind + " "
			work, _ = ctx.Deadline()
			return obedient(ctx, tk)
		}))
		w.Sender.Handlers = map[string]outbox.Handler{"late": handler(func(ctx context.Context) {
			told += "sent"
			send, _ = ctx.Deadline()
			if info, err := w.Lanes.Peek(ctx, w.Workspace, lane.Heartbeat); err != nil || info.Held() {
				t.Errorf("lane heartbeat is %+v, %v", info, err)
			}
		})}
		w.enqueue(t, "late", "a")
		w.enqueue(t, "another's", "b")
		w.plan(t, w.addObjective(t, "x", 5), "close")
		tick := slot(1)
		tick.Workspace = w.Workspace
		r, err := w.Run(ctx, tick)
		if err != nil || r.Outcome != heartbeat.Completed || told != "advance advance sent" || send.Sub(work) < 10*time.Second {
			t.Errorf("it is %+v, %v; %s, %s later", r, err, told, send.Sub(work))
		}
		if r := w.beat(t, slot(2)); r.Outcome != heartbeat.Idle {
			t.Errorf("the next is %+v", r)
		}
	})
}

// TestABeatSendsWhatItSays checks that a beat sends the rows that it enqueued itself.
func TestABeatSendsWhatItSays(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		sent := 0
		var w *world
		w = newWorld(t, e, first("advance", func() { w.enqueue(t, "said", "a") }))
		w.Sender.Handlers = map[string]outbox.Handler{"said": handler(func(context.Context) { sent++ })}
		w.plan(t, w.addObjective(t, "x", 5), "close")
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Completed || sent != 1 {
			t.Errorf("sent %d times, it is %+v", sent, r)
		}
	})
}

// TestABeatThatFailsSendsWhatIsDue checks that a failure does not delay the outbox.
func TestABeatThatFailsSendsWhatIsDue(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		sent := 0
		w := newWorld(t, e, idle(t))
		w.Sender.Handlers = map[string]outbox.Handler{"late": handler(func(context.Context) { sent++ })}
		w.enqueue(t, "late", "a")
		w.set(t, `{"steps_per_run": "many"}`)
		if r, err := w.Run(t.Context(), heartbeat.Tick{Workspace: w.Workspace}); err == nil || sent != 1 {
			t.Errorf("sent %d times, it is %+v", sent, r)
		}
	})
}

// TestWhatAnotherFunctionSendsIsKicked checks that a beat leaves rows that it cannot send and kicks
// the function that can. A failed kick changes nothing.
func TestWhatAnotherFunctionSendsIsKicked(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		sent, kicked := 0, 0
		var failed error
		w.Sender.Handlers = map[string]outbox.Handler{"ours": handler(func(context.Context) { sent++ })}
		w.Elsewhere, w.Kick = []string{"message:email"}, func(context.Context) error {
			kicked++
			return failed
		}
		beat := func(n int) {
			t.Helper()
			tick := slot(n)
			tick.Workspace = w.Workspace
			if r, err := w.Run(t.Context(), tick); err != nil || r.Outcome != heartbeat.Completed {
				t.Errorf("beat %d: %+v, %v", n, r, err)
			}
		}
		w.enqueue(t, "ours", "a")
		if beat(1); sent != 1 || kicked != 0 {
			t.Errorf("%d sent, %d kicks", sent, kicked)
		}
		w.enqueue(t, "message:email", "b")
		if beat(2); sent != 1 || kicked != 1 {
			t.Errorf("with a row of another function's %d sent, %d kicks", sent, kicked)
		}
		failed = errors.New("no such function")
		if beat(3); sent != 1 || kicked != 2 {
			t.Errorf("with a row that was not sent %d sent, %d kicks", sent, kicked)
		}
		other := &outbox.Sender{Store: w.Outbox, Holder: "operate", Log: w.Log, Handlers: map[string]outbox.Handler{
			"message:email": handler(func(context.Context) { sent++ }),
		}}
		if err := other.DrainAll(t.Context(), w.Workspace, func(context.Context) {}); err != nil || sent != 2 {
			t.Errorf("the other function: %d sent, %v", sent, err)
		}
		if r := w.beat(t, slot(4)); r.Outcome != heartbeat.Idle || kicked != 2 {
			t.Errorf("then a beat is %+v, with %d kicks", r, kicked)
		}
	})
}
