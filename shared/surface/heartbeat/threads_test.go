package heartbeat_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// mouth is a channel that counts its messages.
type mouth struct{ said int }

func (*mouth) Name() string { return "log" }

func (m *mouth) Send(context.Context, thread.Message) error { m.said++; return nil }

// TestABeatClearsAStaleThread covers a holder that hangs: the message that another agent has queued
// is sent.
func TestABeatClearsAStaleThread(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		m := &mouth{}
		w.Sender.Handlers = w.Threads.Handlers(m)
		th := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: "log", Address: "ada"}))(t)
		begin := func() (id string) {
			id = ids()
			err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.Runs.Begin(ctx, tx, execution.Execution{ID: id, Agent: "a", Surface: trace.Worker, Trace: w.Traces.New(trace.Worker)}, false)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		must(w.Threads.Lock(t.Context(), w.Workspace, th.ID, begin()))(t)
		other := begin()
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			ctx = trace.With(ctx, w.Traces.New(trace.Worker))
			_, err := w.Threads.Send(ctx, tx, thread.Outgoing{Thread: th.ID, Execution: other, Body: "hello"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Idle || m.said != 0 {
			t.Errorf("a fresh lock: %+v, said %d", r, m.said)
		}
		w.Skew.Advance(thread.Idle + time.Minute)
		w.beat(t, slot(2))
		rows, _, err := w.Threads.Outbox(t.Context(), w.Workspace, th.ID, outbox.Filter{})
		if err != nil || m.said != 1 || rows[0].Status != outbox.Sent {
			t.Errorf("said %d, the outbox has %+v, %v", m.said, rows, err)
		}
		if r := w.beat(t, slot(3)); r.Outcome != heartbeat.Idle {
			t.Errorf("then %+v", r)
		}
	})
}

// TestABeatEndsWhatIsSilentForAWeek covers an external agent that has died: the execution that
// waits for it continues.
func TestABeatEndsWhatIsSilentForAWeek(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, idle(t))
		parent, child, speaker := ids(), ids(), ids()
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			begin := func(id, parent string) error {
				_, err := w.Runs.Begin(ctx, tx, execution.Execution{ID: id, Agent: "a", Surface: trace.Worker, Trace: w.Traces.New(trace.Worker), Parent: parent}, true)
				return err
			}
			return errors.Join(begin(parent, ""), begin(child, parent), begin(speaker, ""))
		})
		if err != nil {
			t.Fatal(err)
		}
		th := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: "log", Address: "ada"}))(t)
		is := func(id string) execution.Status { return must(w.Runs.Get(t.Context(), w.Workspace, id))(t).Status }
		w.Skew.Advance(6 * 24 * time.Hour)
		must(w.Threads.Lock(t.Context(), w.Workspace, th.ID, speaker))(t)
		if r := w.beat(t, slot(1)); r.Outcome != heartbeat.Idle || is(child) != execution.Running {
			t.Errorf("before a week is over it is %+v", r)
		}
		w.Skew.Advance(2 * 24 * time.Hour)
		if r := w.beat(t, slot(2)); is(child) != execution.Stalled || is(parent) != execution.Running || is(speaker) != execution.Running {
			t.Errorf("%s, %s and %s after %+v", is(child), is(parent), is(speaker), r)
		}
		w.Skew.Advance(8 * 24 * time.Hour)
		if r := w.beat(t, slot(3)); is(parent) != execution.Stalled || is(speaker) != execution.Stalled || r.Phases[0].Done != 2 {
			t.Errorf("%s and %s after %+v", is(parent), is(speaker), r)
		}
		if r := w.beat(t, slot(4)); r.Outcome != heartbeat.Idle {
			t.Errorf("then %+v", r)
		}
	})
}
