package action_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// cutOff leaves a delivery as a process does that ends right after it has begun: working, with an
// open execution, and no lane held.
func (w *world) cutOff(t testing.TB, id string) {
	t.Helper()
	d := w.delivery(t, id)
	h := must(w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: lane.Execution(id), Holder: "test"}))(t)
	err := w.Lanes.InHold(t.Context(), lane.Holds{h}, func(ctx context.Context, tx lane.Tx) error {
		e := execution.Execution{ID: ids(), Agent: activity.Operator, Surface: trace.Webhook, Trace: d.Trace, Subject: h.Lane, Attempt: 1,
			Input: []byte(`{"task":"webhook","delivery_id":"` + id + `","source":"` + d.Source + `","skill":"notify","input":{"text":"as asked"},"trust":"operator","rule":true}`)}
		if _, _, err := w.Inbox.Begin(ctx, tx, id, "skill notify", e.ID); err != nil {
			return err
		}
		tx.Release(w.Lanes, h)
		return w.runs.Start(tx, e)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rules gives a source other rules.
func (w *world) rules(t testing.TB, n inbox.Source, rules string) {
	t.Helper()
	n.Rules = nil
	if err := json.Unmarshal([]byte(rules), &n.Rules); err != nil {
		t.Fatal(err)
	}
	w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.Inbox.Update(ctx, tx, n); return err })
}

// TestWhatWasBegunGoesOnAsItWasAsked, whatever the rules of its source say by then.
func TestWhatWasBegunGoesOnAsItWasAsked(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, rules := range map[string]string{
			"message": `[{"then":{"message":{"thread":{"channel":"gh","address":"x"},"body":"y"}}}]`,
			"skill":   `[{"then":{"skill":"shout"}}]`,
			"none":    `[]`,
			"unfit":   `[{"then":{"skill":"whistle"}}]`,
			"absent":  `[{"then":{"automation":"nightly","with":{"text":"z"}}}]`,
		} {
			n := w.source(t, name, notifies)
			id := w.receive(t, name, "d1", `{"title":"x"}`)
			w.cutOff(t, id)
			w.rules(t, n, rules)
			before := len(w.calls())
			w.drain(t)
			if d := w.delivery(t, id); d.Status != inbox.Done || d.Attempts != 1 || d.Action != "skill notify" {
				t.Errorf("%s: the delivery is %+v", name, d)
			}
			if calls := w.calls()[before:]; len(calls) != 1 || string(calls[0].Arguments) != `{"text":"as asked"}` {
				t.Errorf("%s: calls: %+v", name, calls)
			}
		}
		if len(w.asked) != 0 {
			t.Errorf("the model was asked %d times", len(w.asked))
		}
		w.mustBeFree(t)
	})
}

// lose ends the row of the outbox by which a delivery goes on, as after its last try.
func (w *world) lose(t testing.TB) {
	t.Helper()
	claimed := must(w.Outbox.Claim(t.Context(), outbox.Request{Workspace: w.Workspace, Topics: []string{inbox.Topic}, Holder: "test", Limit: 1, Lease: time.Minute}))(t)
	if len(claimed) != 1 {
		t.Fatalf("%d rows are due", len(claimed))
	}
	w.tx(t, func(_ context.Context, tx *db.Tx) error {
		w.Outbox.UncertainIn(tx.Later(), claimed[0], errors.New("it was cut off in its last try"))
		return nil
	})
}

// TestADeliveryWithoutItsKickIsRedelivered: nothing else would go on with it. One that was begun
// goes on in its own execution, so that a call which has begun is not made unseen a second time.
func TestADeliveryWithoutItsKickIsRedelivered(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		replay := func(id string) error {
			return w.Env.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.Inbox.Replay(ctx, tx, id)
				return err
			})
		}
		w.source(t, "gh", notifies)
		for name, begun := range map[string]bool{"working": true, "received": false} {
			id := w.receive(t, "gh", name, `{"title":"x"}`)
			if begun {
				w.cutOff(t, id)
				if err := replay(id); !errors.Is(err, inbox.ErrWorking) {
					t.Errorf("redelivered while its kick is there: %v", err)
				}
			}
			before := len(w.calls())
			w.lose(t)
			w.drain(t)
			if d := w.delivery(t, id); d.Status.Ended() {
				t.Errorf("%s without a kick: %+v", name, d)
			}
			if err := replay(id); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := replay(id); begun && !errors.Is(err, inbox.ErrWorking) {
				t.Errorf("%s twice: %v", name, err)
			}
			execution := w.delivery(t, id).Execution
			w.drain(t)
			d := w.delivery(t, id)
			if d.Status != inbox.Done || len(w.calls()) != before+1 || begun && d.Execution != execution {
				t.Errorf("%s, redelivered: %+v, %d calls", name, d, len(w.calls())-before)
			}
		}
		w.mustBeFree(t)
	})
}
