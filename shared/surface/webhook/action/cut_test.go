package action_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
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
