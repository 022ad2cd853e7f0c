package thread_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestAMessageOfAKeyIsSentOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		send := func(e, body string) (thread.Sent, error) {
			return w.trySend(t, thread.Outgoing{Thread: th, Execution: e, Body: body, Key: "k" + e})
		}
		first, err := send(a, "A")
		again, err2 := send(a, "A")
		if err := errors.Join(err, err2); err != nil || first != again {
			t.Errorf("%+v, then %+v, %v", first, again, err)
		}
		if _, err := send(a, "something else"); !errors.Is(err, thread.ErrKey) {
			t.Errorf("another text: %v", err)
		}
		w.queue(t, th, b, "B1", 1)
		second, err := send(b, "B2")
		again, err2 = send(b, "B2")
		if err := errors.Join(err, err2); err != nil || second != again || second.Position != 2 {
			t.Errorf("%+v, then %+v, %v", second, again, err)
		}
		w.complete(t, a)
		w.drain(t)
		if again, err := send(b, "B2"); err != nil || again.Queued || again.ID != second.ID || again.Status != outbox.Sent {
			t.Errorf("%+v, %v", again, err)
		}
		w.drain(t)
		w.mustHaveSaid(t, "A", "B1", "B2")
	})
}

func TestQueuedMessagesGiveWayAndExpire(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		w.mustLock(t, th, a, thread.Acquired)
		send := func(m thread.Outgoing) thread.Sent {
			m.Thread, m.Execution = th, b
			sent, err := w.trySend(t, m)
			if err != nil {
				t.Fatal(err)
			}
			return sent
		}
		old := send(thread.Outgoing{Body: "please send your documents", SupersedeKey: "documents"})
		late := send(thread.Outgoing{Body: "we close in five minutes", TTL: 5 * time.Minute})
		if sent := send(thread.Outgoing{Body: "please send your passport", SupersedeKey: "documents"}); sent.Position != 2 {
			t.Errorf("%+v", sent)
		}
		w.Skew.Advance(6 * time.Minute)
		w.complete(t, a)
		w.drain(t)
		w.mustHaveSaid(t, "please send your passport")
		w.sweep(t)
		w.drain(t)
		for id, want := range map[string]outbox.Status{old.ID: outbox.Superseded, late.ID: outbox.Expired} {
			if e := w.message(t, id); e.Status != want {
				t.Errorf("%s is %s", e.Payload, e.Status)
			}
		}
	})
}

// TestTheHeadOfAQueueGivesWay: a message that holds the thread for its own send can be superseded
// too, and the thread is passed on.
func TestTheHeadOfAQueueGivesWay(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b, c := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false), w.begin(t, "", false)
		w.mustLock(t, th, a, thread.Acquired)
		if _, err := w.trySend(t, thread.Outgoing{Thread: th, Execution: b, Body: "old", SupersedeKey: "k"}); err != nil {
			t.Fatal(err)
		}
		w.complete(t, a)
		sent, err := w.trySend(t, thread.Outgoing{Thread: th, Execution: c, Body: "new", SupersedeKey: "k"})
		if err != nil || sent.Queued {
			t.Fatalf("%+v, %v", sent, err)
		}
		w.drain(t)
		w.mustHaveSaid(t, "new")
		w.mustHold(t, th)
	})
}

// TestAFailingHead: a failing head is tried again. When its tries are used up it is parked as
// failed, and the rest continues.
func TestAFailingHead(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b, c := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false), w.begin(t, "", false)
		w.mustLock(t, th, a, thread.Acquired)
		head := w.queue(t, th, b, "B", 1)
		next := w.queue(t, th, c, "C", 2)
		w.complete(t, a)
		w.channel.err = errors.New("the line is down")
		for i := range 8 {
			w.drain(t)
			if e := w.message(t, head); e.Attempts != i+1 {
				t.Fatalf("%d tries, want %d", e.Attempts, i+1)
			}
			w.Skew.Advance(5 * time.Minute)
		}
		if e := w.message(t, head); e.Status != outbox.Failed || e.LastError != "the line is down" {
			t.Errorf("%+v", e)
		}
		w.mustHold(t, th, next) // it did not wait for a sweep
		w.channel.err = nil
		w.drain(t)
		w.mustHaveSaid(t, "C")
		sent, err := w.resend(t, th, head)
		if err != nil || sent != (thread.Sent{ID: head, Status: outbox.Ready}) {
			t.Errorf("sent again: %+v, %v", sent, err)
		}
		w.mustHold(t, th, head) // for its own send
		w.drain(t)
		w.mustHaveSaid(t, "C", "B")
		w.mustHold(t, th)
	})
}

// TestResend: a message that is sent again waits like any other, for the holder of the thread and
// after the queued messages. An expired or sent message is not sent again.
func TestResend(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
		w.channel.err = outbox.Permanently(errors.New("no such number"))
		one, two := w.send(t, th, b, "one").ID, w.send(t, th, b, "two").ID
		late, err := w.trySend(t, thread.Outgoing{Thread: th, Execution: b, Body: "late", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		w.drain(t)
		w.channel.err = nil
		w.complete(t, b)
		w.Skew.Advance(2 * time.Minute)
		w.say(t, th, a, "from a")
		c := w.begin(t, "", false)
		w.queue(t, th, c, "from c", 1)
		for position, id := range []string{two, one} {
			want := thread.Sent{ID: id, Status: outbox.Queued, Queued: true, Position: position + 2}
			if sent, err := w.resend(t, th, id); err != nil || sent != want {
				t.Errorf("sent again: %+v, %v, want %+v", sent, err, want)
			}
		}
		w.drain(t)
		w.mustHaveSaid(t, "from a")
		w.complete(t, a)
		w.drain(t)
		w.mustHaveSaid(t, "from a", "from c", "two", "one")
		for id, want := range map[string]outbox.Status{late.ID: outbox.Expired, one: outbox.Sent} {
			_, err := w.resend(t, th, id)
			if got, ok := errors.AsType[*outbox.StatusError](err); !ok || got.Status != want {
				t.Errorf("%v, want it to be %s", err, want)
			}
		}
		for _, where := range []string{w.open(t, "y"), ids()} {
			if _, err := w.resend(t, where, one); !errors.Is(err, db.ErrNoRows) {
				t.Errorf("in another thread: %v", err)
			}
		}
	})
}

// TestARepeatSaysThatNothingWasSpoken: a caller that repeats a message which will not be sent must
// not believe that it was.
func TestARepeatSaysThatNothingWasSpoken(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a := w.open(t, "x"), w.begin(t, "", false)
		for want, err := range map[outbox.Status]error{
			outbox.Failed:    outbox.Permanently(errors.New("no such number")),
			outbox.Uncertain: outbox.Uncertainly(errors.New("no answer")),
			outbox.Dead:      outbox.Gone(errors.New("blocked us")),
		} {
			w.channel.err = err
			m := thread.Outgoing{Thread: th, Execution: a, Body: "hello", Key: string(want)}
			sent, err := w.trySend(t, m)
			if err != nil || sent.Status != outbox.Ready {
				t.Fatalf("%+v, %v", sent, err)
			}
			w.drain(t)
			_, err = w.trySend(t, m)
			if got, ok := errors.AsType[*outbox.StatusError](err); !ok || got.Status != want {
				t.Errorf("again: %v, want it to be %s", err, want)
			}
		}
	})
}

// TestAMessageIsOfItsExecutionsTrace: a message has its execution's trace, whatever request sent
// it.
func TestAMessageIsOfItsExecutionsTrace(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a := w.open(t, "x"), w.begin(t, "", false)
		e, err := w.runs.Get(t.Context(), w.Workspace, a)
		if err != nil {
			t.Fatal(err)
		}
		err = w.DB.Tx(trace.With(t.Context(), traces.New(trace.Operate)), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.threads.Send(ctx, tx, thread.Outgoing{Thread: th, Execution: a, Body: "hello"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.drain(t)
		if w.channel.trace != e.Trace {
			t.Errorf("it was sent under the trace %s, want %s", w.channel.trace, e.Trace)
		}
	})
}

// TestWhatTheChannelSays: the channel's answer decides the status of a message.
func TestWhatTheChannelSays(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, a := w.open(t, "x"), w.begin(t, "", false)
		for want, err := range map[outbox.Status]error{
			outbox.Failed:    outbox.Permanently(errors.New("no such number")),
			outbox.Uncertain: outbox.Uncertainly(errors.New("no answer")),
			outbox.Dead:      outbox.Gone(errors.New("blocked us")),
		} {
			w.channel.err = err
			sent := w.send(t, th, a, "hello")
			w.drain(t)
			if e := w.message(t, sent.ID); e.Status != want {
				t.Errorf("%v: the message is %s", err, e.Status)
			}
		}
		items, _, err := w.threads.Messages(t.Context(), w.Workspace, th, 0, 0)
		if err != nil || len(items) != 0 {
			t.Errorf("%+v, %v", items, err)
		}
	})
}

// keyless is a channel that can't pass on a key.
type keyless struct{ *ledger }

func (keyless) Unkeyed() bool { return true }

func TestAKeylessChannelSaysSo(t *testing.T) {
	w := newWorld(t, inSQLite(t))
	for c, want := range map[thread.Channel]bool{w.channel: false, keyless{w.channel}: true} {
		h, ok := w.threads.Handlers(c)["message:ledger"].(outbox.Unkeyed)
		if !ok || h.Unkeyed() != want {
			t.Errorf("%T: %t", c, !want)
		}
	}
}

func TestOpenIsIdempotent(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		want := thread.Thread{Channel: "ledger", Address: "x", Policy: thread.HandOver, Metadata: map[string]string{"name": "Ö"}}
		first, err := w.threads.Open(t.Context(), w.Workspace, want)
		if err != nil || first.Policy != want.Policy || first.Metadata["name"] != "Ö" || first.Lock.State != thread.Free {
			t.Fatalf("%+v, %v", first, err)
		}
		if again := w.open(t, "x"); again != first.ID {
			t.Error("a second thread was opened")
		}
		if other := w.open(t, "y"); other == first.ID {
			t.Error("two addresses have one thread")
		}
	})
}

func TestListsHavePages(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var want, got []string
		for i := range 5 {
			want = append([]string{w.open(t, numbered(i))}, want...)
		}
		for before, more := (db.Position{}), true; more; {
			var page []thread.Thread
			var err error
			if page, more, err = w.threads.List(t.Context(), w.Workspace, thread.Filter{Before: before, Limit: 2}); err != nil {
				t.Fatal(err)
			}
			for _, th := range page {
				got, before = append(got, th.ID), db.Position{At: th.CreatedAt, ID: th.ID}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("listed %q, want %q", got, want)
		}
		e := w.begin(t, "", false)
		w.say(t, want[0], e, "hello")
		if p, _, err := w.threads.Outbox(t.Context(), w.Workspace, want[0], outbox.Filter{}); err != nil || len(p) != 1 || p[0].Execution != e {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestAppend: a message of the person is stored once for each key.
func TestAppend(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th := w.open(t, "x")
		said := func(key, body string) error {
			_, _, err := w.tryAnswer(t, th, body, key)
			return err
		}
		if err := errors.Join(said("1", "one"), said("1", "one"), said("", "two"), said("3", "three")); err != nil {
			t.Fatal(err)
		}
		if err := said("1", "another"); !errors.Is(err, thread.ErrKey) {
			t.Errorf("another text: %v", err)
		}
		var got []string
		for after, more := int64(0), true; more; {
			var page []thread.Spoken
			var err error
			if page, more, err = w.threads.Messages(t.Context(), w.Workspace, th, after, 2); err != nil {
				t.Fatal(err)
			}
			for _, m := range page {
				got, after = append(got, m.Body), m.Seq
			}
		}
		if !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("%q", got)
		}
		if err := said("", "\x00"); !errors.As(err, new(*problem.InvalidError)) {
			t.Errorf("a NUL: %v", err)
		}
		th = ids()
		if err := said("", "nobody"); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("no thread: %v", err)
		}
	})
}

func TestWhatIsRefused(t *testing.T) {
	w := newWorld(t, inSQLite(t))
	th, e := w.open(t, "x"), w.begin(t, "", false)
	for name, m := range map[string]thread.Outgoing{
		"nothing": {}, "blank": {Body: " \n"}, "too much": {Body: strings.Repeat("x", 64<<10+1)}, "no text": {Body: "\xff"},
		"a long key": {Body: "x", Key: strings.Repeat("k", 201)}, "a long supersede key": {Body: "x", SupersedeKey: strings.Repeat("k", 201)},
		"no time": {Body: "x", TTL: -1}, "too much time": {Body: "x", TTL: 31 * 24 * time.Hour},
	} {
		m.Thread, m.Execution = th, e
		if _, err := w.trySend(t, m); !errors.As(err, new(*problem.InvalidError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, th := range map[string]thread.Thread{
		"no channel": {Address: "x"}, "no address": {Channel: "x"}, "no policy": {Channel: "x", Address: "x", Policy: "?"},
		"a long address": {Channel: "x", Address: strings.Repeat("x", 513)},
		"much metadata":  {Channel: "x", Address: "x", Metadata: map[string]string{"x": strings.Repeat("x", 4<<10)}},
	} {
		if _, err := w.threads.Open(t.Context(), w.Workspace, th); !errors.As(err, new(*problem.InvalidError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.mustHold(t, th)
}

// TestAFullQueue: a queue has a maximum length.
func TestAFullQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine sends 1,000 messages: under the race detector that takes minutes and finds nothing")
	}
	w := newWorld(t, inSQLite(t))
	th, a, b := w.open(t, "x"), w.begin(t, "", false), w.begin(t, "", false)
	w.mustLock(t, th, a, thread.Acquired)
	w.must(t, func(ctx context.Context, tx *db.Tx) error {
		for i := range 1000 {
			if _, err := w.threads.Send(ctx, tx, thread.Outgoing{Thread: th, Execution: []string{a, b}[i%2], Body: "x"}); err != nil {
				return err
			}
		}
		return nil
	})
	for name, e := range map[string]string{"the holder's": a, "another's": b} {
		if _, err := w.trySend(t, thread.Outgoing{Thread: th, Execution: e, Body: "x"}); !errors.Is(err, thread.ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.drain(t)
	w.say(t, th, a, "there is room again")
}

// TestADeliveryThatIsKilledIsRepeatedWithinAMinute: the sender dies while the channel has the
// message. The next sender delivers it within a minute.
func TestADeliveryThatIsKilledIsRepeatedWithinAMinute(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, e := w.open(t, "anna"), w.begin(t, "", false)
		w.say(t, th, e, "one")
		w.say(t, th, e, "two")
		died := make(chan struct{})
		mortal := sends(func(context.Context, thread.Message) error { runtime.Goexit(); return nil })
		go func() {
			defer close(died)
			s := w.sender()
			s.Lease, s.Handlers = 0, w.threads.Handlers(mortal)
			_, _ = s.Drain(t.Context(), w.Workspace, 10)
		}()
		<-died
		w.Skew.Advance(25 * time.Second)
		w.drain(t)
		w.mustHaveSaid(t) // R5: not before the claim ends
		w.Skew.Advance(35 * time.Second)
		w.drain(t)
		w.mustHaveSaid(t, "one", "two")
	})
}

// sends is a channel with the ledger's name.
type sends func(context.Context, thread.Message) error

func (sends) Name() string                                       { return "ledger" }
func (s sends) Send(ctx context.Context, m thread.Message) error { return s(ctx, m) }

// TestAnEndedSiblingIsNotOvertaken: its queued messages go when its parent, or a sibling, holds the
// thread again, before these speak.
func TestAnEndedSiblingIsNotOvertaken(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, letGo := range map[string]func(th, first string){
			"the first ends": func(_, first string) { w.complete(t, first) },
			"the first lets go": func(th, first string) {
				w.must(t, func(ctx context.Context, tx *db.Tx) error { return w.threads.Unlock(ctx, tx, th, first) })
				w.complete(t, first)
			},
		} {
			w.channel.said = nil
			parent := w.begin(t, "", false)
			th := w.open(t, name)
			w.mustLock(t, th, parent, thread.Acquired)
			first, second := w.begin(t, parent, true), w.begin(t, parent, true)
			grandchild := w.begin(t, second, true)
			w.say(t, th, first, "first")
			w.queue(t, th, grandchild, "grandchild", 1)
			w.complete(t, grandchild)
			w.queue(t, th, second, "second", 2)
			w.complete(t, second)
			letGo(th, first)
			w.mustHold(t, th, parent)
			w.say(t, th, parent, "parent")
			w.drain(t)
			w.mustHaveSaid(t, "first", "grandchild", "second", "parent")
			w.complete(t, parent)
			w.mustHold(t, th)
		}
	})
}
