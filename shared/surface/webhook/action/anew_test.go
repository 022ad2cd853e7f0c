package action_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

const notifiesOther = `[{"event":"issues.*","then":{"skill":"notify","with":{"text":"Changed: {{body.title}}"}}}]`

func (w *world) redeliver(t testing.TB, id string, anew bool) {
	t.Helper()
	w.tx(t, func(ctx context.Context, tx *db.Tx) error { _, err := w.Inbox.Replay(ctx, tx, id, anew); return err })
	w.drain(t)
}

// TestAnotherEffectIsAPersonsWish: a delivery whose call may have had its effect keeps the key for the
// same call. Where the rules ask for another by now, it is not made, neither by itself nor redelivered,
// unless a person wants another effect, which has a key of its own.
func TestAnotherEffectIsAPersonsWish(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.failing(func(skill.Call) error { return skill.Fail(skill.Theirs, "it is away") })
		n := w.source(t, "gh", notifies)
		id := w.receive(t, "gh", "d1", `{"title":"x"}`)
		w.drain(t)
		w.rules(t, n, notifiesOther)
		w.Skew.Advance(time.Hour)
		w.drain(t) // the next try
		if d := w.delivery(t, id); d.Status != inbox.Parked || !strings.Contains(d.Error, "something else") || len(w.calls()) != 1 {
			t.Fatalf("with other rules: %s, %q, %d calls", d.Status, d.Error, len(w.calls()))
		}
		w.redeliver(t, id, false)
		if d := w.delivery(t, id); d.Status != inbox.Parked || len(w.calls()) != 1 {
			t.Errorf("redelivered with other rules: %s, %d calls", d.Status, len(w.calls()))
		}
		w.failing(nil)
		w.redeliver(t, id, true)
		calls := w.calls()
		if d := w.delivery(t, id); d.Status != inbox.Done || len(calls) != 2 || calls[1].Key == calls[0].Key || string(calls[1].Arguments) != `{"text":"Changed: x"}` {
			t.Errorf("redelivered anew: %s, %q, calls %+v", d.Status, d.Error, calls)
		}
		w.mustBeFree(t)
	})
}

// TestTheSameCallKeepsItsKey when it is redelivered: it is made once by whoever knows keys.
func TestTheSameCallKeepsItsKey(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.failing(func(skill.Call) error { return &skill.UncertainError{Reason: "no answer came"} })
		n := w.source(t, "gh", notifies)
		id := w.receive(t, "gh", "d1", `{"title":"x"}`)
		w.drain(t)
		for range 7 {
			w.Skew.Advance(time.Hour)
			w.drain(t)
		}
		before := len(w.calls())
		if d := w.delivery(t, id); d.Status != inbox.Parked || before == 0 {
			t.Fatalf("%s, %q, %d calls", d.Status, d.Error, before)
		}
		w.failing(nil)
		w.rules(t, n, `[{"event":"push","then":{"skill":"shout"}},`+notifies[1:]) // another rule is none of its own
		w.redeliver(t, id, false)
		if d, calls := w.delivery(t, id), w.calls(); d.Status != inbox.Done || len(calls) != before+1 || calls[before].Key != calls[0].Key {
			t.Errorf("redelivered: %s, calls %+v", d.Status, calls)
		}
	})
}

// TestARefusedCallIsMadeAsTheRulesAreNow: it surely had no effect, so that another key doubles none;
// who refused it may have kept the refusal under the old one.
func TestARefusedCallIsMadeAsTheRulesAreNow(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.failing(func(skill.Call) error { return skill.Fail(skill.Input, "no such room") })
		n := w.source(t, "gh", notifies)
		id := w.receive(t, "gh", "d1", `{"title":"x"}`)
		w.drain(t)
		if d := w.delivery(t, id); d.Status != inbox.Parked || d.Effect {
			t.Fatalf("refused: %+v", d)
		}
		w.failing(nil)
		w.rules(t, n, notifiesOther)
		w.redeliver(t, id, false)
		calls := w.calls()
		if d := w.delivery(t, id); d.Status != inbox.Done || len(calls) != 2 || calls[1].Key == calls[0].Key || string(calls[1].Arguments) != `{"text":"Changed: x"}` {
			t.Errorf("redelivered: %s, %q, calls %+v", d.Status, d.Error, calls)
		}
	})
}

// TestATryThatLeftNothingBehindMayHaveHadItsEffect: it was begun, its execution is closed, and other
// rules ask for something else.
func TestATryThatLeftNothingBehindMayHaveHadItsEffect(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		n := w.source(t, "gh", notifies)
		id := w.receive(t, "gh", "d1", `{"title":"x"}`)
		var keys []string
		w.failing(func(c skill.Call) error {
			keys = append(keys, c.Key)
			return errors.New("it broke off")
		})
		w.drain(t)
		w.failing(nil)
		w.rules(t, n, `[{"then":{"message":{"thread":{"channel":"gh","address":"x"},"body":"y"}}}]`)
		w.Skew.Advance(time.Hour)
		w.drain(t)
		if d := w.delivery(t, id); d.Status != inbox.Parked || len(w.asked) != 0 || len(keys) != 1 {
			t.Errorf("a message instead: %s, %q, the model was asked %d times", d.Status, d.Error, len(w.asked))
		}
		w.rules(t, n, "[]")
		w.redeliver(t, id, false)
		if d := w.delivery(t, id); d.Status != inbox.Done || slices.ContainsFunc(w.calls(), func(c skill.Call) bool { return c.Key != keys[0] }) {
			t.Errorf("nothing instead: %s, %q", d.Status, d.Error)
		}
	})
}
