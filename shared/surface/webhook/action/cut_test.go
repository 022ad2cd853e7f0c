package action_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
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
		if _, _, err := w.Inbox.Begin(ctx, tx, id, inbox.Try{Action: "skill notify", Execution: e.ID}); err != nil {
			return err
		}
		tx.Release(w.Lanes, h)
		return w.Runs.Start(tx, e)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rules gives a source other rules.
func (w *world) rules(t testing.TB, n inbox.Source, rules string) {
	t.Helper()
	n = must(w.Inbox.Source(t.Context(), w.Workspace, n.ID))(t)
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
				_, err := w.Inbox.Replay(ctx, tx, id, false)
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

// TestWithoutItsSourceNothingMoreBegins: a delivery that was begun is parked when its source is
// disabled or deleted, unless its call has begun: that may have had its effect, and goes on.
func TestWithoutItsSourceNothingMoreBegins(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		stop := map[string]func(n inbox.Source){
			"disabled": func(n inbox.Source) {
				n.Enabled = false
				w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.Inbox.Update(ctx, tx, n); return err })
			},
			"deleted": func(n inbox.Source) {
				w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.Inbox.Delete(ctx, tx, n.ID); return err })
			},
		}
		for name, fn := range stop {
			n := w.source(t, name, notifies)
			id := w.receive(t, name, "d1", `{"title":"x"}`)
			w.cutOff(t, id)
			begun := w.delivery(t, id).Execution
			fn(n)
			w.drain(t)
			d, e := w.delivery(t, id), must(w.Runs.Get(t.Context(), w.Workspace, begun))(t)
			if d.Status != inbox.Parked || !strings.Contains(d.Error, name) || len(w.calls()) != 0 || e.Status != execution.Failed {
				t.Errorf("%s: %s, %q, %d calls, its execution is %s", name, d.Status, d.Error, len(w.calls()), e.Status)
			}
		}
		for name, fn := range stop {
			n := w.source(t, name+"-later", notifies)
			id := w.receive(t, name+"-later", "d1", `{"title":"x"}`)
			before := len(w.calls())
			w.interrupt(t)
			if d := w.delivery(t, id); d.Status != inbox.Working || len(w.calls()) != before+1 {
				t.Fatalf("%s, interrupted: %+v", name, d)
			}
			fn(n)
			w.Skew.Advance(time.Hour)
			w.drain(t)
			if d, calls := w.delivery(t, id), w.calls()[before:]; d.Status != inbox.Done || len(calls) != 2 || calls[0].Key != calls[1].Key {
				t.Errorf("%s in its call: %s, %q, %d calls", name, d.Status, d.Error, len(calls))
			}
		}
		w.mustBeFree(t)
	})
}

// interrupt works on the delivery that is due until its call has begun.
func (w *world) interrupt(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.failing(func(skill.Call) error { cancel(); return ctx.Err() })
	defer w.failing(nil)
	claimed := must(w.Outbox.Claim(t.Context(), outbox.Request{Workspace: w.Workspace, Topics: []string{inbox.Topic}, Holder: "test", Limit: 1, Lease: time.Minute}))(t)
	if len(claimed) != 1 {
		t.Fatalf("%d rows are due", len(claimed))
	}
	if err := w.Handle(ctx, claimed[0]); err == nil {
		t.Fatal("it was not interrupted")
	}
}

// TestASourceIsAReceiver: deliveries of one source do not take all places of the topic, however
// their rows came about.
func TestASourceIsAReceiver(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		n := w.source(t, "gh", notifies)
		id := w.receive(t, "gh", "d1", `{"title":"x"}`)
		w.drain(t)
		w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.Inbox.Replay(ctx, tx, id, false); return err })
		w.drain(t)
		rows, _, err := w.Outbox.List(t.Context(), w.Workspace, outbox.Filter{Topic: inbox.Topic, Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, row := range rows {
			if row.Receiver != "inbox:"+n.ID {
				t.Errorf("row %s is for %q", row.Key, row.Receiver)
			}
		}
	})
}
