package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// onServers runs fn on the engines that have row locks.
func onServers(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) { fn(t, newWorld(t, dbtest.New(t, engine))) })
	}
}

var errLetGo = errors.New("let go")

// lock locks the row of a lane, like a transaction under its hold, until the test calls letGo.
func (w *world) lock(t testing.TB, name lane.Name) (letGo func()) {
	t.Helper()
	var q struct{ Lock, Stay db.Query }
	if err := db.Load(fstest.MapFS{"lock.sql": {Data: []byte(`
-- name: Lock
SELECT 1 FROM agent_locks WHERE workspace_id = $1 AND lane = $2 FOR UPDATE;

-- name: Stay
-- global: about the connection
SELECT set_config('idle_in_transaction_session_timeout', '0', true);
`)}}, &q); err != nil {
		t.Fatal(err)
	}
	d, _ := w.Open(t, 1)
	locked, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		err := d.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			var n int
			var limit string // the database would end an idle transaction
			if err := errors.Join(tx.One(ctx, []any{&limit}, q.Stay), tx.One(ctx, []any{&n}, q.Lock, name)); err != nil {
				t.Error(err)
			}
			close(locked)
			<-over
			return errLetGo
		})
		if !errors.Is(err, errLetGo) {
			t.Error(err)
		}
	}()
	<-locked
	letGo = sync.OnceFunc(func() { close(over); <-ended })
	t.Cleanup(letGo)
	return letGo
}

// A person cancels a turn while a transaction works under one of its holds. The cancel is accepted
// and takes effect when the transaction ends.
func TestATurnIsGivenUpBehindATransaction(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		for _, of := range []func(id string) lane.Name{lane.Execution, func(string) lane.Name { return lane.Operate }} {
			h := newThinking()
			w.think(llmtest.Write(t, h.then("One.")))
			first := w.saying(turn.Turn{Message: "1"})
			id := <-first.begun
			<-h.asked
			letGo := w.lock(t, of(id))
			for range 2 { // a repeated request gets the same response
				if err := w.Cancel(t.Context(), w.Workspace, id, "user:ada", false); err != nil {
					t.Errorf("behind a transaction under lane %s it is refused: %v", of(id), err)
				}
			}
			letGo()
			if r := w.drain(t); r.Sent != 1 {
				t.Errorf("drained %+v", r)
			}
			if e := w.execution(t, id); e.Status != execution.Cancelled || e.Error != "cancel by user:ada" {
				t.Errorf("it is %s, %s", e.Status, e.Error)
			}
			close(h.answer)
			if r := first.end(t); r.Status != execution.Cancelled {
				t.Errorf("it ended as %+v", r)
			}
			w.mustBeFree(t)
		}
	})
}

// The same holds for a message that replaces the turn.
func TestATurnIsInterruptedBehindATransaction(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		for _, mode := range []turn.Multitask{turn.Interrupt, turn.Rollback} {
			h := newThinking()
			w.think(llmtest.Write(t, h.then("One."), llmtest.Writes("Instead.")))
			first := w.saying(turn.Turn{Message: "1"})
			id := <-first.begun
			<-h.asked
			letGo := w.lock(t, lane.Execution(id))
			second := w.saying(turn.Turn{Message: "2", Multitask: mode})
			select {
			case <-second.begun: // it is accepted
			case <-second.ended:
				t.Errorf("%s behind a transaction is refused: %v", mode, second.err)
			}
			letGo()
			if r := second.end(t); r.Status != execution.Completed || r.Answer != "Instead." {
				t.Errorf("%s: the second ended as %+v", mode, r)
			}
			close(h.answer)
			if r := first.end(t); r.Status != execution.Cancelled || r.Reason != string(mode)+" by user:ada" {
				t.Errorf("%s: the first ended as %+v", mode, r)
			}
			w.Skew.Advance(time.Hour)
			if r := w.drain(t); r.Claimed != 0 {
				t.Errorf("%s: something is left to do: %+v", mode, r)
			}
			w.mustBeFree(t)
		}
	})
}

// An accepted interrupt takes effect even if the process that accepted it stops.
func TestAnInterruptOutlivesItsProcess(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, h.then("One."), llmtest.Writes("Instead.")))
		first := w.saying(turn.Turn{Message: "1"})
		id := <-first.begun
		<-h.asked
		letGo := w.lock(t, lane.Execution(id))
		ctx, stop := context.WithCancel(trace.With(t.Context(), traces.New(trace.Operate)))
		second, err := w.Talk(ctx, w.Workspace, turn.Turn{
			Message: "2", By: "user:ada", Multitask: turn.Interrupt, Begun: func(string, string) { stop() },
		})
		if err != nil || second.Status != execution.Parked {
			t.Fatalf("the second is %+v, %v", second, err)
		}
		letGo()
		for range 60 { // within a minute by the database's clock
			if w.drain(t); w.execution(t, second.Execution).Status == execution.Completed {
				break
			}
			w.Skew.Advance(time.Second)
		}
		if e := w.execution(t, second.Execution); e.Status != execution.Completed {
			t.Fatalf("the first is %+v, the second %+v", w.execution(t, id), e)
		}
		if e := w.execution(t, id); e.Status != execution.Cancelled || e.Error != "interrupt by user:ada" {
			t.Errorf("the first is %s, %s", e.Status, e.Error)
		}
		close(h.answer)
		first.end(t)
		if got := w.spoken(t, second.Thread); !slices.Equal(got, []string{"user: 2", "assistant: Instead."}) {
			t.Errorf("the thread is %q", got)
		}
		w.mustBeFree(t)
	})
}

// An accepted interrupt ends only the turn that it met. It does not end the next turn, which has
// begun because the first one was ended by somebody else.
func TestAnInterruptEndsOneTurn(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		one, two := newThinking(), newThinking()
		w.think(llmtest.Write(t, one.then("One."), two.then("Two."), llmtest.Writes("Three.")))
		first := w.saying(turn.Turn{Message: "1"})
		id := <-first.begun
		<-one.asked
		second := w.saying(turn.Turn{Message: "2"})
		next := <-second.begun // it waits in line
		letGo := w.lock(t, lane.Execution(id))
		ctx, cancel := context.WithTimeout(trace.With(context.Background(), traces.New(trace.Operate)), time.Minute)
		defer cancel()
		var third turn.Reply
		var failed error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			third, failed = w.Talk(ctx, w.Workspace, turn.Turn{
				Message: "3", By: "user:ada", Multitask: turn.Interrupt, Begun: func(string, string) {
					letGo()
					if r := w.drain(t); r.Sent != 1 { // it ends the first turn and wakes the second
						t.Errorf("drained %+v", r)
					}
					<-two.asked
				},
			})
		}()
		<-two.asked
		for w.execution(t, next).Status == execution.Running && must(w.Lanes.Peek(t.Context(), w.Workspace, lane.Operate))(t).WantedAt == nil {
			time.Sleep(time.Millisecond) // until the third turn has looked
		}
		close(two.answer)
		if r := second.end(t); r.Status != execution.Completed || r.Answer != "Two." {
			t.Errorf("the second is %+v", r)
		}
		if <-ended; failed != nil || third.Answer != "Three." {
			t.Errorf("the third is %+v, %v", third, failed)
		}
		close(one.answer)
		if r := first.end(t); r.Status != execution.Cancelled {
			t.Errorf("the first is %+v", r)
		}
		w.mustBeFree(t)
	})
}

// Two people stop the same turn during a transaction. The stronger way applies, in whichever order
// they came.
func TestTheStrongerWayToStopATurnHolds(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		t.Parallel()
		for _, c := range []struct {
			mode   turn.Multitask
			cancel string // first or second
			ended  string
			said   int
		}{
			{turn.Interrupt, "second", "cancel by user:bob", 2},
			{turn.Interrupt, "first", "cancel by user:bob", 2},
			{turn.Rollback, "first", "rollback by user:ada", 0},
			{turn.Rollback, "second", "rollback by user:ada", 0},
		} {
			h := newThinking()
			w.think(llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), h.then("One."), llmtest.Writes("Instead.")))
			first := w.saying(turn.Turn{Message: "Pay."})
			id := <-first.begun
			<-h.asked
			letGo := w.lock(t, lane.Execution(id))
			giveUp := func(when string) {
				if c.cancel == when {
					if err := w.Cancel(t.Context(), w.Workspace, id, "user:bob", false); err != nil {
						t.Errorf("%s: %v", c.mode, err)
					}
				}
			}
			giveUp("first")
			ctx, stop := context.WithCancel(trace.With(t.Context(), traces.New(trace.Operate)))
			second, err := w.Talk(ctx, w.Workspace, turn.Turn{
				Message: "2", By: "user:ada", Multitask: c.mode, Begun: func(string, string) { stop() },
			})
			if err != nil || second.Status != execution.Parked {
				t.Fatalf("%s: the second is %+v, %v", c.mode, second, err)
			}
			giveUp("second")
			letGo()
			for until := time.Now().Add(time.Minute); w.execution(t, second.Execution).Status != execution.Completed; {
				if w.drain(t); time.Now().After(until) {
					t.Fatalf("%s: the first is %+v", c.mode, w.execution(t, id))
				}
			}
			close(h.answer)
			r := first.end(t)
			for until := time.Now().Add(20 * time.Second); w.execution(t, id).Error != c.ended; {
				if w.drain(t); time.Now().After(until) {
					t.Errorf("%s, cancel %s: the first ended as %q", c.mode, c.cancel, w.execution(t, id).Error)
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if got := w.spoken(t, r.Thread); len(got) != c.said {
				t.Errorf("%s, cancel %s: the thread is %q", c.mode, c.cancel, got)
			}
			waits, _, err := w.Approvals.List(t.Context(), w.Workspace, all)
			waits = slices.DeleteFunc(waits, func(a approval.Approval) bool { return a.Execution != id })
			if err != nil || len(waits) != 1 || waits[0].Status != approval.Rejected {
				t.Errorf("%s, cancel %s: the approvals are %+v, %v", c.mode, c.cancel, waits, err)
			}
			w.mustBeFree(t)
		}
	})
}

// A turn that can't be stopped for whatever reason is stopped as soon as it can be: its row has no last attempt.
func TestAStopIsNotForgotten(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, h.then("One.")))
		first := w.saying(turn.Turn{Message: "1"})
		id := <-first.begun
		<-h.asked
		c := outbox.Claimed{Workspace: w.Workspace, Attempt: 20, Row: outbox.Row{
			MaxAttempts: 20, Payload: must(json.Marshal(map[string]string{"execution": id, "mode": "cancel", "by": "user:ada"}))(t),
		}}
		var stopper outbox.Handler = turn.Stopper{Runner: w.Runner}
		if e, ok := stopper.(outbox.Endless); !ok || !e.Endless() {
			t.Error("an attempt that is cut off may be the last one")
		}
		skills := w.Skills
		w.Skills = func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) {
			return nil, errors.New("unreadable")
		}
		err := stopper.Handle(t.Context(), c)
		w.Skills = skills
		if _, later := errors.AsType[*outbox.LaterError](err); !later {
			t.Errorf("the last attempt ends with %v", err)
		}
		if err := stopper.Handle(t.Context(), c); err != nil {
			t.Error(err)
		}
		close(h.answer)
		if r := first.end(t); r.Status != execution.Cancelled {
			t.Errorf("it ended as %+v", r)
		}
		w.mustBeFree(t)
	})
}

// A turn that cannot be stopped for long is retried later. The stop does not keep its place of the
// outbox's sender.
func TestAStopGivesItsPlaceBack(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		t.Parallel()
		h := newThinking()
		w.think(llmtest.Write(t, h.then("One.")))
		first := w.saying(turn.Turn{Message: "1"})
		id := <-first.begun
		<-h.asked
		letGo := w.lock(t, lane.Execution(id))
		if err := w.Cancel(t.Context(), w.Workspace, id, "user:ada", false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		payload := must(json.Marshal(map[string]string{"execution": id, "mode": "cancel", "by": "user:ada"}))(t)
		err := turn.Stopper{Runner: w.Runner}.Handle(ctx, outbox.Claimed{Workspace: w.Workspace, Row: outbox.Row{Payload: payload}})
		if _, later := errors.AsType[*outbox.LaterError](err); !later || ctx.Err() != nil {
			t.Errorf("it ends with %v, when its caller has %v", err, ctx.Err())
		}
		letGo()
		if r := w.drain(t); r.Sent != 1 {
			t.Errorf("then %+v", r)
		}
		close(h.answer)
		if r := first.end(t); r.Status != execution.Cancelled {
			t.Errorf("it ended as %+v", r)
		}
		w.mustBeFree(t)
	})
}
