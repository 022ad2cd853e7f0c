package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const sent = "a secret of the sender"

// slug gives the workspace of the test one that the world can address.
func (w *world) slug(t testing.TB) string {
	t.Helper()
	var slug string
	if err := w.DB.One(t.Context(), w.Workspace, []any{&slug}, own(t).Slug); err != nil {
		t.Fatal(err)
	}
	return slug
}

func (w *world) create(t testing.TB, n inbox.Source) inbox.Source {
	t.Helper()
	made, err := w.tryCreate(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (w *world) tryCreate(ctx context.Context, n inbox.Source) (made inbox.Source, err error) {
	n.CreatedBy = "user:ada"
	draft, err := w.s.Seal(ctx, w.Workspace, n, secret.NewValue(sent))
	if err != nil {
		return made, err
	}
	err = w.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		made, err = w.s.Create(ctx, tx, draft)
		return err
	})
	return made, err
}

func (w *world) find(t testing.TB, name string) inbox.Found {
	t.Helper()
	f, err := w.s.Find(t.Context(), w.slug(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (w *world) receive(t testing.TB, f inbox.Found, id, body string) inbox.Receipt {
	t.Helper()
	ctx := trace.With(t.Context(), traces.New(trace.Webhook))
	got, err := w.s.Receive(ctx, f, inbox.Content{ID: id, Event: "push", Digest: fmt.Sprintf("%064x", len(body)), Headers: map[string]string{"a": "b"}}, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (w *world) delivery(t testing.TB, id string) inbox.Delivery {
	t.Helper()
	d, err := w.s.Delivery(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (w *world) kicks(t testing.TB) []outbox.Entry {
	t.Helper()
	rows, _, err := w.outbox.List(t.Context(), w.Workspace, outbox.Filter{Topic: inbox.Topic, Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestSourcesAreFoundByTheirAddress, of any workspace, with the secrets that are valid now.
func TestSourcesAreFoundByTheirAddress(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		made := w.create(t, inbox.Source{Name: "shop", Kind: inbox.HMAC, IDPath: "body.id", Enabled: true, Rules: rules(t, `[{"then":{"skill":"x"}}]`)})
		f := w.find(t, "shop")
		if f.Workspace != w.Workspace || f.ID != made.ID || f.Header != "X-Signature" || f.Encoding != inbox.Hex || f.IDPath != "body.id" || !f.Enabled {
			t.Errorf("found %+v", f)
		}
		secrets, err := w.s.Secrets(t.Context(), f)
		if err != nil || len(secrets) != 1 || secrets[0].Reveal() != sent {
			t.Errorf("%d secrets, %v", len(secrets), err)
		}
		for _, address := range [][2]string{{w.slug(t), "other"}, {"other", "shop"}, {string(w.Workspace), "shop"}, {"", ""}} {
			if _, err := w.s.Find(t.Context(), address[0], address[1]); !errors.Is(err, inbox.ErrNotFound) {
				t.Errorf("%v: %v", address, err)
			}
		}
		read, err := w.s.Source(t.Context(), w.Workspace, "shop")
		if err != nil || read.ID != made.ID || len(read.Rules) != 1 || read.Rules[0].Then.Skill != "x" {
			t.Errorf("%+v, %v", read, err)
		}
	})
}

// TestTwoSecretsAreValid for 24 hours after a rotation; then the new one alone.
func TestTwoSecretsAreValid(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		made := w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub})
		draft, err := w.s.SealAnew(t.Context(), w.Workspace, made, secret.NewValue("the secret after that"))
		if err != nil {
			t.Fatal(err)
		}
		err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.s.Rotate(ctx, tx, draft)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		valid := func() (texts []string) {
			secrets, err := w.s.Secrets(t.Context(), w.find(t, "gh"))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range secrets {
				texts = append(texts, v.Reveal())
			}
			return texts
		}
		if got := fmt.Sprint(valid()); got != "[the secret after that "+sent+"]" {
			t.Errorf("valid are %s", got)
		}
		w.Skew.Advance(24*time.Hour + time.Second)
		if got := fmt.Sprint(valid()); got != "[the secret after that]" {
			t.Errorf("a day later, valid are %s", got)
		}
		if n, err := w.s.Source(t.Context(), w.Workspace, "gh"); err != nil || n.OldUntil != nil || n.Version != 2 {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// TestADeliveryIsStoredOnce, with one row of the outbox, and the same id with another body is
// flagged.
func TestADeliveryIsStoredOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub})
		f := w.find(t, "gh")
		before := w.DB.Stats().RoundTrips
		first := w.receive(t, f, "d1", "body")
		if cost := w.DB.Stats().RoundTrips - before; cost != 1 {
			t.Errorf("it took %d round trips", cost)
		}
		if first.Duplicate || first.Conflict {
			t.Errorf("the first: %+v", first)
		}
		if again := w.receive(t, f, "d1", "body"); again != (inbox.Receipt{ID: first.ID, Duplicate: true}) {
			t.Errorf("again: %+v", again)
		}
		if other := w.receive(t, f, "d1", "another body"); other != (inbox.Receipt{ID: first.ID, Duplicate: true, Conflict: true}) {
			t.Errorf("another body: %+v", other)
		}
		d := w.delivery(t, first.ID)
		if d.Status != inbox.Received || string(d.Body) != "body" || d.Duplicates != 2 || d.Conflicts != 1 || d.Headers["a"] != "b" || d.Source != "gh" {
			t.Errorf("stored: %+v", d)
		}
		rows := w.kicks(t)
		if len(rows) != 1 || rows[0].Trace != d.Trace || rows[0].Status != outbox.Ready {
			t.Fatalf("the outbox has %+v", rows)
		}
		if id, ok := inbox.DeliveryOf(rows[0].Payload); !ok || id != first.ID {
			t.Errorf("its row is about %q", id)
		}
	})
}

// TestManyAtOnce: of the same deliveries, sent at once by many, each is stored once.
func TestManyAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub})
		f := w.find(t, "gh")
		const senders, deliveries = 6, 10
		var mu sync.Mutex
		fresh := map[string]int{}
		var wg sync.WaitGroup
		for range senders {
			wg.Go(func() {
				for n := range deliveries {
					id := fmt.Sprint("d", n)
					ctx := trace.With(t.Context(), traces.New(trace.Webhook))
					got, err := w.s.Receive(ctx, f, inbox.Content{ID: id, Digest: fmt.Sprintf("%064x", n)}, nil)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if !got.Duplicate {
						fresh[id]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		all, err := w.s.List(t.Context(), w.Workspace, inbox.Filter{Limit: 100})
		if err != nil || len(all) != deliveries || len(w.kicks(t)) != deliveries || len(fresh) != deliveries {
			t.Errorf("%d rows, %d kicks, %d first ones, %v", len(all), len(w.kicks(t)), len(fresh), err)
		}
		for _, d := range all {
			if d.Duplicates != senders-1 || fresh[d.DeliveryID] != 1 || d.Conflicts != 0 {
				t.Errorf("%s: %d duplicates, %d were told that they were first", d.DeliveryID, d.Duplicates, fresh[d.DeliveryID])
			}
		}
	})
}

// TestARejectedRequestLeavesOneCounter and nothing else.
func TestARejectedRequestLeavesOneCounter(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		made := w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub})
		for range 3 {
			if err := w.s.Reject(t.Context(), w.find(t, "gh")); err != nil {
				t.Fatal(err)
			}
		}
		n, err := w.s.Source(t.Context(), w.Workspace, made.ID)
		if err != nil || n.Rejected != 3 || n.RejectedAt == nil || n.Version != made.Version {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// TestSourcesAreChangedByVersion, and names are unique.
func TestSourcesAreChangedByVersion(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		made := w.create(t, inbox.Source{Name: "a", Kind: inbox.Token})
		w.create(t, inbox.Source{Name: "b", Kind: inbox.Token})
		if _, err := w.tryCreate(t.Context(), inbox.Source{Name: "a", Kind: inbox.GitHub}); !errors.Is(err, inbox.ErrTaken) {
			t.Errorf("the name again: %v", err)
		}
		update := func(n inbox.Source) (changed inbox.Source, err error) {
			err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				changed, err = w.s.Update(ctx, tx, n)
				return err
			})
			return changed, err
		}
		changed := made
		changed.Rules = rules(t, `[{"then":{"automation":"nightly"}}]`)
		if got, err := update(changed); err != nil || got.Version != 2 || got.Rules[0].Then.Automation != "nightly" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := update(changed); !errors.Is(err, inbox.ErrChanged) {
			t.Errorf("the version before: %v", err)
		}
		for _, wrong := range []inbox.Source{
			{Name: "A", Kind: inbox.Token}, {Name: "", Kind: inbox.Token}, {Name: "a/b", Kind: inbox.Token}, {Name: "c", Kind: "gitlab"}, {Name: ids(), Kind: inbox.Token},
			{Name: "c", Kind: inbox.GitHub, Header: "X"}, {Name: "c", Kind: inbox.Token, Encoding: inbox.Hex}, {Name: "c", Kind: inbox.HMAC, Encoding: "octal"},
			{Name: "c", Kind: inbox.HMAC, Header: "a b"}, {Name: "c", Kind: inbox.HMAC, Prefix: "\n"}, {Name: "c", Kind: inbox.HMAC, IDPath: "id.x y."},
		} {
			if _, err := w.tryCreate(t.Context(), wrong); err == nil {
				t.Errorf("%+v is stored", wrong)
			}
		}
	})
}

// TestTries: a delivery is begun and ended by its statuses, and a person has it done again.
func TestTries(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub})
		id := w.receive(t, w.find(t, "gh"), "d1", "body").ID
		in := func(fn func(ctx context.Context, tx *db.Tx) error) {
			t.Helper()
			if err := w.DB.Tx(t.Context(), w.Workspace, fn); err != nil {
				t.Fatal(err)
			}
		}
		begin := func() (n int, ok bool) {
			t.Helper()
			in(func(ctx context.Context, tx *db.Tx) (err error) {
				n, ok, err = w.s.Begin(ctx, tx, id, inbox.Try{Action: "skill x", Execution: ids()})
				return err
			})
			return n, ok
		}
		end := func(e inbox.Ending) {
			t.Helper()
			in(func(_ context.Context, tx *db.Tx) error { w.s.End(tx.Later(), id, e); return nil })
		}
		replay := func() (err error) {
			t.Helper()
			err = w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.Replay(ctx, tx, id, false)
				return err
			})
			return err
		}
		if n, ok := begin(); n != 1 || !ok {
			t.Fatalf("try %d, %t", n, ok)
		}
		if err := replay(); !errors.Is(err, inbox.ErrWorking) {
			t.Errorf("replayed while it is worked on: %v", err)
		}
		end(inbox.Ending{Status: inbox.Failed, Error: "no", Wait: time.Minute})
		if d := w.delivery(t, id); d.Status != inbox.Failed || d.Error != "no" || d.Wait() < 50*time.Second || d.Action != "skill x" || d.EndedAt != nil {
			t.Errorf("failed: %+v", d)
		}
		if _, ok := begin(); ok {
			t.Error("it is tried again before its time")
		}
		w.Skew.Advance(time.Minute + time.Second)
		if n, ok := begin(); n != 2 || !ok {
			t.Errorf("try %d, %t", n, ok)
		}
		end(inbox.Ending{Status: inbox.Parked, Error: "no", Effect: true})
		key := w.delivery(t, id).EffectKey()
		if _, ok := begin(); ok {
			t.Error("a parked one is tried again")
		}
		if err := replay(); err != nil {
			t.Fatal(err)
		}
		if d := w.delivery(t, id); d.Status != inbox.Received || d.Attempts != 0 || d.EndedAt != nil || d.EffectKey() != key {
			t.Errorf("replayed: %+v", d)
		}
		begin()
		end(inbox.Ending{Status: inbox.Done})
		if err := replay(); err != nil {
			t.Fatal(err)
		}
		if d := w.delivery(t, id); d.Status != inbox.Received || d.EffectKey() == key {
			t.Errorf("replayed after it was done: %+v", d)
		}
		if rows := w.kicks(t); len(rows) != 1 || rows[0].Status != outbox.Ready {
			t.Errorf("its rows of the outbox are %+v", rows)
		}
		if _, err := w.s.Delivery(t.Context(), w.Workspace, ids()); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("one that is not there: %v", err)
		}
		var raw json.RawMessage
		if _, ok := inbox.DeliveryOf(raw); ok {
			t.Error("an empty payload is about something")
		}
	})
}

// TestSecretsAreSealedAnew under a new key, both of a source, and are valid as before.
func TestSecretsAreSealedAnew(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		made := w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub})
		w.create(t, inbox.Source{Name: "single", Kind: inbox.GitHub})
		draft, err := w.s.SealAnew(t.Context(), w.Workspace, made, secret.NewValue("the secret after that"))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.s.Rotate(ctx, tx, draft)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if n, failed, err := w.s.Reseal(t.Context(), w.Workspace); n != 0 || len(failed) != 0 || err != nil {
			t.Errorf("under the same key: %d, %v, %v", n, failed, err)
		}
		if _, err := w.keys.AddKey(); err != nil {
			t.Fatal(err)
		}
		if n, failed, err := w.s.Reseal(t.Context(), w.Workspace); n != 2 || len(failed) != 0 || err != nil {
			t.Errorf("under a new key: %d, %v, %v", n, failed, err)
		}
		if n, _, err := w.s.Reseal(t.Context(), w.Workspace); n != 0 || err != nil {
			t.Errorf("once more: %d, %v", n, err)
		}
		secrets, err := w.s.Secrets(t.Context(), w.find(t, "gh"))
		if err != nil || len(secrets) != 2 || secrets[0].Reveal() != "the secret after that" || secrets[1].Reveal() != sent {
			t.Errorf("%d secrets, %v", len(secrets), err)
		}
	})
}

// TestErrorsOfAnyBytesAreStored: what a receiver answered is not always text.
func TestErrorsOfAnyBytesAreStored(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true})
		id := w.receive(t, w.find(t, "gh"), "d1", "{}").ID
		var b db.Batch
		w.s.End(&b, id, inbox.Ending{Status: inbox.Parked, Error: "a\x00b\xff"})
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHeadersOfAnyTextAreStored: as many as are kept, of characters that JSON may escape.
func TestHeadersOfAnyTextAreStored(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true})
		f, h := w.find(t, "gh"), header("X-GitHub-Delivery", "d1", "X-GitHub-Event", "push")
		for i := range 15 {
			h.Set(fmt.Sprintf("X-%d", i), strings.Repeat("<&>", 341))
		}
		c, err := f.Read(inbox.Request{Header: h, Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.s.Receive(trace.With(t.Context(), traces.New(trace.Webhook)), f, c, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if d := w.delivery(t, got.ID); !maps.Equal(d.Headers, c.Headers) {
			t.Errorf("%d headers are stored, not %d", len(d.Headers), len(c.Headers))
		}
	})
}

// TestASecretOpensInItsPlaceAlone: one that was copied to another source does not, though its text is
// known from its own.
func TestASecretOpensInItsPlaceAlone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.create(t, inbox.Source{Name: "a", Kind: inbox.GitHub})
		w.create(t, inbox.Source{Name: "b", Kind: inbox.GitHub})
		if secrets, err := w.s.Secrets(t.Context(), w.find(t, "a")); err != nil || len(secrets) != 1 {
			t.Fatalf("%d secrets, %v", len(secrets), err)
		}
		if _, err := w.DB.Exec(t.Context(), w.Workspace, own(t).CopySecret, "a", "b"); err != nil {
			t.Fatal(err)
		}
		if secrets, err := w.s.Secrets(t.Context(), w.find(t, "b")); !errors.Is(err, secret.ErrDamaged) {
			t.Errorf("%d secrets, %v", len(secrets), err)
		}
	})
}
