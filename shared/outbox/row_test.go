package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestARowIsReadBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ctx := trace.WithExecution(trace.With(t.Context(), traces.New(trace.Chat)), ids())
		in := outbox.Row{
			Kind: outbox.Webhook, Topic: "hook", Key: "größe ☺", OrderKey: "endpoint:1", Seq: 7, Payload: payload(map[string]int{"a": 1}), Format: 3,
			MaxAttempts: 5, SupersedeKey: "s", Delay: time.Minute, TTL: time.Hour,
		}
		var b db.Batch
		id := w.s.Enqueue(ctx, &b, in)
		if err := w.DB.Do(ctx, w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		got := w.get(t, id)
		in.ID, in.Delay, in.TTL, in.Execution = id, 0, 0, trace.Execution(ctx)
		in.Trace, _ = trace.From(ctx)
		got.Payload = json.RawMessage(strings.ReplaceAll(string(got.Payload), " ", "")) // a database may add spaces
		want := outbox.Entry{Row: in, Status: outbox.Ready}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(outbox.Entry{}, "DueAt", "ExpiresAt", "CreatedAt", "UpdatedAt")); diff != "" {
			t.Error(diff)
		}
		if due, ends := got.DueAt.Sub(got.CreatedAt), got.ExpiresAt.Sub(got.CreatedAt); !about(due, time.Minute) || !about(ends, time.Hour) {
			t.Errorf("due after %s, over after %s", due, ends)
		}
		there := w.neighbour(t)
		if _, err := there.s.Get(ctx, there.Workspace, id); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("a neighbour reads it: %v", err)
		}
	})
}

func about(got, want time.Duration) bool { return (got - want).Abs() < 3*time.Second }

func TestAKeyIsThereOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first := w.enqueue(t, kick("a"))[0]
		other := kick("a")
		other.Payload, other.SupersedeKey = payload("other"), "s"
		second := w.enqueue(t, other)[0]
		if _, err := w.s.Get(t.Context(), w.Workspace, second); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("the second is there: %v", err)
		}
		if e := w.get(t, first); string(e.Payload) != "{}" {
			t.Errorf("%+v", e)
		}
		w.neighbour(t).enqueue(t, kick("a")) // a key belongs to one workspace
		if w.due(t, topic) != 1 {
			t.Errorf("%d are due", w.due(t, topic))
		}
	})
}

// TestARevivedRowIsNew: a row that is wanted again and again for months is not older than what the workspace keeps, so that
// its age calls for no purge.
func TestARevivedRowIsNew(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for name, revive := range map[string]func(context.Context, *db.Batch, outbox.Row){"revive": w.s.Revive, "now": w.s.ReviveNow} {
			id := w.enqueue(t, kick(name))[0]
			first := w.get(t, id).CreatedAt
			want := func(what string, created time.Duration) {
				t.Helper()
				var b db.Batch
				revive(t.Context(), &b, kick(name))
				if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
					t.Fatal(err)
				}
				if is := w.get(t, id); is.CreatedAt.Sub(first).Round(time.Hour) != created || is.Status != outbox.Ready {
					t.Errorf("%s, %s: created %s later, and %s", name, what, is.CreatedAt.Sub(first), is.Status)
				}
			}
			w.Skew.Advance(40 * 24 * time.Hour)
			want("open", 0)
			w.become(t, id, outbox.Sent)
			want("ended", 40*24*time.Hour)
		}
	})
}

// TestARevivedRowIsOfItsNewCause: a kick that has ended and is wanted again leads back to who wants it now. An
// open one leads back to who wanted it first.
func TestARevivedRowIsOfItsNewCause(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		revive := func(r outbox.Row) {
			var b db.Batch
			w.s.Revive(t.Context(), &b, r)
			if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
				t.Fatal(err)
			}
		}
		first, second, third := kick("a"), kick("a"), kick("a")
		id := w.enqueue(t, first)[0]
		if revive(second); w.get(t, id).Trace != first.Trace {
			t.Errorf("an open row: %+v, wanted first by %s", w.get(t, id), first.Trace)
		}
		w.become(t, id, outbox.Sent)
		if revive(third); w.get(t, id).Trace != third.Trace || w.get(t, id).Status != outbox.Ready {
			t.Errorf("an ended row: %+v, revived by %s", w.get(t, id), third.Trace)
		}
	})
}

func TestWhatIsUndoneIsNeverSent(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		sorry := errors.New("sorry")
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			w.s.Enqueue(ctx, tx.Later(), ordered("a", "o", 1))
			return errors.Join(tx.Flush(ctx), sorry)
		})
		if !errors.Is(err, sorry) {
			t.Fatal(err)
		}
		if n := w.due(t, topic); n != 0 {
			t.Errorf("%d rows are due", n)
		}
		w.enqueue(t, ordered("b", "o", 1)) // its position is free
	})
}

var statuses = []outbox.Status{
	outbox.Queued, outbox.Ready, outbox.Sending, outbox.Sent, outbox.Failed, outbox.Superseded, outbox.Expired, outbox.Uncertain, outbox.Dead,
}

// TestTheDatabaseFollowsTheTable tries every pair of statuses with the functions that lead to the
// second one.
func TestTheDatabaseFollowsTheTable(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ctx := t.Context()
		// verbs has the functions that try to bring a row to a status, claimed or not. The row
		// has the order key that its key names.
		verbs := map[outbox.Status]func(c outbox.Claimed) error{
			outbox.Ready: func(c outbox.Claimed) error {
				return w.s.Retry(ctx, c, errors.New("later"))
			},
			outbox.Sending: func(outbox.Claimed) error {
				_, err := w.s.Claim(ctx, w.request(10))
				return err
			},
			outbox.Sent:      func(c outbox.Claimed) error { return w.s.Sent(ctx, c) },
			outbox.Failed:    func(c outbox.Claimed) error { return w.s.Fail(ctx, c, errors.New("no")) },
			outbox.Uncertain: func(c outbox.Claimed) error { return w.s.Uncertain(ctx, c, errors.New("who knows")) },
			outbox.Dead:      func(c outbox.Claimed) error { return w.s.Kill(ctx, c, errors.New("gone")) },
			outbox.Superseded: func(c outbox.Claimed) error {
				newer := kick(ids())
				newer.SupersedeKey, newer.Delay = c.SupersedeKey, time.Hour
				w.enqueue(t, newer)
				return nil
			},
			outbox.Expired: func(outbox.Claimed) error {
				w.Skew.Advance(2 * time.Hour)
				_, err := w.s.Claim(ctx, w.request(10))
				return err
			},
			outbox.Queued: func(c outbox.Claimed) error { return w.resend(t, c.OrderKey, c.ID, 2) },
		}
		for _, from := range statuses {
			for _, to := range statuses {
				if from == outbox.Queued && to == outbox.Ready { // only the owner of a queued row makes it ready
					continue
				}
				row := ordered(ids(), ids(), 1)
				row.SupersedeKey = row.Key
				if to == outbox.Expired {
					row.TTL = time.Hour
				}
				id := w.enqueue(t, row)[0]
				c := w.the(t)
				if from != outbox.Sending {
					w.become(t, id, from)
				} else if to == outbox.Sending {
					w.Skew.Advance(2 * lease)
				}
				want := from
				switch {
				case from.Can(to):
					want = to
				case from == outbox.Sending && to == outbox.Expired:
					want = outbox.Uncertain // its attempt was cut off
				}
				err := verbs[to](c)
				if got := w.get(t, id).Status; got != want {
					t.Errorf("%s to %s: it is %s, want %s (%v)", from, to, got, want, err)
				}
				w.become(t, id, outbox.Dead)
			}
		}
	})
}

func TestStatuses(t *testing.T) {
	for _, s := range statuses {
		ends := true
		for _, next := range statuses {
			ends = ends && !s.Can(next)
		}
		if s.Open() && ends {
			t.Errorf("%s goes nowhere", s)
		}
		if s.Can("lost") || outbox.Status("lost").Can(s) {
			t.Errorf("%s has an edge that there is not", s)
		}
	}
	for _, final := range []outbox.Status{outbox.Sent, outbox.Superseded, outbox.Expired, outbox.Dead} {
		if final.Open() || final.Can(outbox.Queued) {
			t.Errorf("%s is not final", final)
		}
	}
}

func TestTheDatabaseRefusesWhatMakesNoSense(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for name, change := range map[string]func(*outbox.Row){
			"a kind":            func(r *outbox.Row) { r.Kind = "letter" },
			"no key":            func(r *outbox.Row) { r.Key = "" },
			"a long key":        func(r *outbox.Row) { r.Key = strings.Repeat("k", 256) },
			"no topic":          func(r *outbox.Row) { r.Topic = "" },
			"tries below zero":  func(r *outbox.Row) { r.MaxAttempts = -1 },
			"a payload no JSON": func(r *outbox.Row) { r.Payload = json.RawMessage("{") },
			"a seq below zero":  func(r *outbox.Row) { r.OrderKey, r.Seq = "o", -1 },
			"an order, no seq":  func(r *outbox.Row) { r.OrderKey = "o" },
		} {
			r := kick("k")
			change(&r)
			var b db.Batch
			w.s.Enqueue(t.Context(), &b, r)
			if err := w.DB.Do(t.Context(), w.Workspace, &b); !errors.Is(err, db.ErrCheck) {
				t.Errorf("%s: %v", name, err)
			}
		}
		id := w.enqueue(t, kick("k"))[0]
		if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Become, id, "lost", false, false); !errors.Is(err, db.ErrCheck) {
			t.Errorf("a status that there is not: %v", err)
		}
		for _, r := range []outbox.Request{{Limit: 1}, {Lease: lease}, {Limit: 1, Lease: 2 * time.Hour}} {
			r.Workspace, r.Topics = w.Workspace, []string{topic}
			if _, err := w.s.Claim(t.Context(), r); err == nil {
				t.Errorf("%d rows were claimed for %s", r.Limit, r.Lease)
			}
		}
	})
}

func TestANewerRowTakesThePlaceOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		row := func(key, supersede string, queued bool) outbox.Row {
			r := ordered(key, "o"+key, 1)
			r.SupersedeKey, r.Queued = supersede, queued
			return r
		}
		sending := w.enqueue(t, row("a", "s", false))[0]
		w.the(t)
		old := w.enqueue(t, row("b", "s", false))[0]
		queued := w.enqueue(t, row("c", "s", true))[0]
		other := w.enqueue(t, row("d", "another", false))[0]
		w.mustBe(t, outbox.Superseded, old) // c supersedes it
		w.mustBe(t, outbox.Queued, queued)
		newest := w.enqueue(t, row("e", "s", false))[0]
		w.mustBe(t, outbox.Sending, sending)
		w.mustBe(t, outbox.Superseded, old, queued)
		w.mustBe(t, outbox.Ready, other, newest)
		w.enqueue(t, row("c", "s", false)) // its key exists: nothing is added or superseded
		w.mustBe(t, outbox.Ready, newest)
	})
}

func TestListing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		added := w.enqueue(t, kick("a"), ordered("b", "o", 1), kick("c"), kick("d"))
		w.become(t, added[2], outbox.Failed)
		other := kick("e")
		other.Topic = "other"
		w.enqueue(t, other)
		list := func(f outbox.Filter) (keys string, last db.Position, more bool) {
			t.Helper()
			found, more, err := w.s.List(t.Context(), w.Workspace, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range found {
				keys += e.Key
				last = db.Position{At: e.CreatedAt, ID: e.ID}
			}
			return keys, last, more
		}
		for want, f := range map[string]outbox.Filter{
			"edcba": {}, "c": {Status: outbox.Failed}, "e": {Topic: "other"}, "b": {OrderKey: "o"}, "dba": {Topic: topic, Status: outbox.Ready}, "": {Status: outbox.Dead},
		} {
			if got, _, more := list(f); got != want || more {
				t.Errorf("%+v lists %q, and more: %v", f, got, more)
			}
		}
		walked, last, more := list(outbox.Filter{Limit: 2})
		for pages := 0; more && pages < 5; pages++ {
			var keys string
			keys, last, more = list(outbox.Filter{Limit: 2, Before: last})
			walked += keys
		}
		if walked != "edcba" {
			t.Errorf("page by page: %q", walked)
		}
	})
}
