package livetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// Threads returns the cases of threads.
func Threads() (all []Case) {
	for i, want := range []thread.Thread{
		{Channel: "log"}, {Channel: "x"}, {Channel: strings.Repeat("c", 56)}, {Channel: "slack", Metadata: map[string]string{"a": "b", "": "ä"}},
		{Channel: "log", Policy: thread.Queue}, {Channel: "log", Policy: thread.Supersede}, {Channel: "log", Policy: thread.HandOver},
		{Channel: "log", ID: newID()},
	} {
		all = append(all, Case{fmt.Sprintf("thread opened %d", i), func(t *testing.T, w *World) {
			want.Address = newID()
			made := w.open(t, want)
			if want.Policy == "" {
				want.Policy = thread.Queue
			}
			if made.Channel != want.Channel || made.Address != want.Address || made.Policy != want.Policy || want.ID != "" && made.ID != want.ID {
				t.Errorf("%+v", made)
			}
			if len(want.Metadata) > 0 && differ(want.Metadata, made.Metadata) != "" {
				t.Error(made.Metadata)
			}
			again := w.open(t, thread.Thread{Channel: want.Channel, Address: want.Address, Policy: thread.Supersede, Metadata: map[string]string{"x": "y"}})
			if diff := differ(made, again); diff != "" {
				t.Error("opened again:\n" + diff)
			}
			if diff := differ(made, w.thread(t, made.ID)); diff != "" {
				t.Error("read:\n" + diff)
			}
		}})
	}
	for _, c := range []struct {
		field string
		of    thread.Thread
	}{
		{"channel", thread.Thread{Address: "a"}}, {"channel", thread.Thread{Channel: strings.Repeat("c", 57), Address: "a"}},
		{"address", thread.Thread{Channel: "log"}}, {"address", thread.Thread{Channel: "log", Address: strings.Repeat("a", 513)}},
		{"policy", thread.Thread{Channel: "log", Address: "a", Policy: "shout"}},
		{"metadata", thread.Thread{Channel: "log", Address: "a", Metadata: map[string]string{"a": strings.Repeat("x", 4<<10)}}},
	} {
		all = append(all, Case{fmt.Sprintf("thread refused: %s %d %d", c.field, len(c.of.Channel), len(c.of.Address)), func(t *testing.T, w *World) {
			_, err := w.Durable.GetOrCreateThread(t.Context(), w.Workspace, c.of)
			invalid(t, err, c.field)
		}})
	}
	for _, c := range []struct {
		name   string
		change thread.Change
		want   thread.Thread
	}{
		{"nothing", thread.Change{}, thread.Thread{Policy: thread.Queue, Metadata: map[string]string{"was": "there"}}},
		{"policy", thread.Change{Policy: new(thread.HandOver)}, thread.Thread{Policy: thread.HandOver, Metadata: map[string]string{"was": "there"}}},
		{"metadata", thread.Change{Metadata: map[string]string{"is": "new"}}, thread.Thread{Policy: thread.Queue, Metadata: map[string]string{"is": "new"}}},
		{"no metadata", thread.Change{Metadata: map[string]string{}}, thread.Thread{Policy: thread.Queue, Metadata: map[string]string{}}},
		{"both", thread.Change{Policy: new(thread.Supersede), Metadata: map[string]string{"a": "b"}}, thread.Thread{Policy: thread.Supersede, Metadata: map[string]string{"a": "b"}}},
	} {
		all = append(all, Case{"thread changed: " + c.name, func(t *testing.T, w *World) {
			made := w.open(t, thread.Thread{Channel: "log", Address: newID(), Metadata: map[string]string{"was": "there"}})
			changed, err := w.Durable.UpdateThread(t.Context(), w.Workspace, made.ID, c.change)
			ok(t, err)
			if changed.Policy != c.want.Policy || differ(c.want.Metadata, changed.Metadata) != "" {
				t.Errorf("%+v", changed)
			}
			if diff := differ(changed, w.thread(t, made.ID)); diff != "" {
				t.Error(diff)
			}
		}})
	}
	for _, c := range []struct {
		field  string
		change thread.Change
	}{
		{"policy", thread.Change{Policy: new(thread.Policy("shout"))}}, {"policy", thread.Change{Policy: new(thread.Policy(""))}},
		{"metadata", thread.Change{Metadata: map[string]string{"a": strings.Repeat("x", 4<<10)}}},
	} {
		all = append(all, Case{fmt.Sprintf("thread change refused: %s %d", c.field, len(c.change.Metadata)+len(*orNone(c.change.Policy))), func(t *testing.T, w *World) {
			made := w.open(t, thread.Thread{Channel: "log", Address: newID()})
			_, err := w.Durable.UpdateThread(t.Context(), w.Workspace, made.ID, c.change)
			invalid(t, err, c.field)
			if diff := differ(made, w.thread(t, made.ID)); diff != "" {
				t.Error(diff)
			}
		}})
	}
	return append(all,
		Case{"a thread that is not there", func(t *testing.T, w *World) {
			_, err := w.Durable.GetThread(t.Context(), w.Workspace, newID())
			is(t, err, db.ErrNoRows)
			_, err = w.Durable.UpdateThread(t.Context(), w.Workspace, newID(), thread.Change{Policy: new(thread.Queue)})
			is(t, err, db.ErrNoRows)
		}},
		Case{"a thread of another workspace", func(t *testing.T, w *World) {
			made := w.open(t, thread.Thread{Channel: "log", Address: newID()})
			_, err := w.Durable.GetThread(t.Context(), w.Other, made.ID)
			is(t, err, db.ErrNoRows)
			_, err = w.Durable.UpdateThread(t.Context(), w.Other, made.ID, thread.Change{Policy: new(thread.HandOver)})
			is(t, err, db.ErrNoRows)
			theirs, err := w.Durable.GetOrCreateThread(t.Context(), w.Other, thread.Thread{Channel: "log", Address: made.Address})
			ok(t, err)
			if theirs.ID == made.ID {
				t.Error("both workspaces have the same one")
			}
		}},
		Case{"threads of two channels", func(t *testing.T, w *World) {
			address := newID()
			if w.open(t, thread.Thread{Channel: "log", Address: address}).ID == w.open(t, thread.Thread{Channel: "slack", Address: address}).ID {
				t.Error("they are one")
			}
		}},
		Case{"opened by eight at once", func(t *testing.T, w *World) {
			address, ids := newID(), sync.Map{}
			at(t.Context(), 8, func(ctx context.Context, _ int) {
				made, err := w.Durable.GetOrCreateThread(ctx, w.Workspace, thread.Thread{Channel: "log", Address: address})
				if err != nil {
					t.Error(err)
				}
				ids.Store(made.ID, true)
			})
			n := 0
			ids.Range(func(any, any) bool { n++; return true })
			if n != 1 {
				t.Errorf("%d threads", n)
			}
		}},
	)
}

func orNone(p *thread.Policy) *thread.Policy {
	if p == nil {
		return new(thread.Policy("none"))
	}
	return p
}

func (w *World) open(t testing.TB, of thread.Thread) thread.Thread {
	t.Helper()
	made, err := w.Durable.GetOrCreateThread(t.Context(), w.Workspace, of)
	ok(t, err)
	return made
}

func (w *World) thread(t testing.TB, id string) thread.Thread {
	t.Helper()
	got, err := w.Durable.GetThread(t.Context(), w.Workspace, id)
	ok(t, err)
	return got
}

// Messages returns the cases of messages.
func Messages() (all []Case) {
	for i, body := range []string{"", "hello", "äöü 🚢", "line\nline", strings.Repeat("x", 64<<10), `{"a":1}`, "'; DROP TABLE messages; --"} {
		for _, role := range []thread.Role{thread.User, thread.Assistant, thread.System, thread.Tool} {
			all = append(all, Case{fmt.Sprintf("message %d of %s", i, role), func(t *testing.T, w *World) {
				to := w.open(t, thread.Thread{Channel: "log", Address: newID()})
				id := w.say(t, to.ID, thread.Spoken{Role: role, Body: body})
				got := w.said(t, to.ID, 0)
				if len(got) != 1 || got[0].ID != id || got[0].Role != role || got[0].Body != body {
					t.Errorf("%.200v", got)
				}
			}})
		}
	}
	for i, c := range []struct {
		field string
		m     thread.Spoken
	}{
		{"body", thread.Spoken{Role: thread.User, Body: strings.Repeat("x", 64<<10+1)}}, {"body", thread.Spoken{Role: thread.User, Body: "a\x00b"}},
		{"body", thread.Spoken{Role: thread.User, Body: "\xff"}}, {"idempotencyKey", thread.Spoken{Role: thread.User, Body: "a", Key: strings.Repeat("k", 201)}},
	} {
		all = append(all, Case{fmt.Sprintf("message refused %d", i), func(t *testing.T, w *World) {
			to := w.open(t, thread.Thread{Channel: "log", Address: newID()})
			_, err := w.Durable.AppendMessage(t.Context(), w.Workspace, to.ID, c.m)
			invalid(t, err, c.field)
			if got := w.said(t, to.ID, 0); len(got) > 0 {
				t.Error(got)
			}
		}})
	}
	all = append(all, manyMessages()...)
	return append(all,
		Case{"a role that is none", func(t *testing.T, w *World) {
			to := w.open(t, thread.Thread{Channel: "log", Address: newID()})
			_, err := w.Durable.AppendMessage(t.Context(), w.Workspace, to.ID, thread.Spoken{Role: "ghost", Body: "boo"})
			is(t, err, db.ErrCheck)
		}},
		Case{"the same key twice", func(t *testing.T, w *World) {
			to := w.open(t, thread.Thread{Channel: "log", Address: newID()})
			first := w.say(t, to.ID, thread.Spoken{Role: thread.User, Body: "hello", Key: "k"})
			if again := w.say(t, to.ID, thread.Spoken{Role: thread.User, Body: "hello", Key: "k"}); again != first {
				t.Error(again, first)
			}
			_, err := w.Durable.AppendMessage(t.Context(), w.Workspace, to.ID, thread.Spoken{Role: thread.User, Body: "other", Key: "k"})
			is(t, err, thread.ErrKey)
			if got := w.said(t, to.ID, 0); len(got) != 1 {
				t.Error(got)
			}
		}},
		Case{"the same key in two threads", func(t *testing.T, w *World) {
			a, b := w.open(t, thread.Thread{Channel: "log", Address: newID()}), w.open(t, thread.Thread{Channel: "log", Address: newID()})
			if w.say(t, a.ID, thread.Spoken{Role: thread.User, Body: "hello", Key: "k"}) == w.say(t, b.ID, thread.Spoken{Role: thread.User, Body: "hello", Key: "k"}) {
				t.Error("they are one message")
			}
		}},
		Case{"a message in no thread", func(t *testing.T, w *World) {
			_, err := w.Durable.AppendMessage(t.Context(), w.Workspace, newID(), thread.Spoken{Role: thread.User, Body: "hello"})
			is(t, err, db.ErrNoRows)
			if got := w.said(t, newID(), 0); len(got) > 0 {
				t.Error(got)
			}
		}},
		Case{"a message in another workspace's thread", func(t *testing.T, w *World) {
			to := w.open(t, thread.Thread{Channel: "log", Address: newID()})
			w.say(t, to.ID, thread.Spoken{Role: thread.User, Body: "mine"})
			_, err := w.Durable.AppendMessage(t.Context(), w.Other, to.ID, thread.Spoken{Role: thread.User, Body: "theirs"})
			is(t, err, db.ErrNoRows)
			theirs, err := w.Durable.GetMessages(t.Context(), w.Other, to.ID, 0)
			ok(t, err)
			if len(theirs) > 0 || len(w.said(t, to.ID, 0)) != 1 {
				t.Error(theirs)
			}
		}},
		Case{"messages by eight at once", func(t *testing.T, w *World) {
			to := w.open(t, thread.Thread{Channel: "log", Address: newID()})
			at(t.Context(), 8, func(ctx context.Context, i int) {
				for n := range 4 {
					if _, err := w.Durable.AppendMessage(ctx, w.Workspace, to.ID, thread.Spoken{Role: thread.Assistant, Body: fmt.Sprintf("%d.%d", i, n)}); err != nil {
						t.Error(err)
					}
				}
			})
			next := map[string]int{}
			all := w.said(t, to.ID, 0)
			for i, m := range all {
				var who, n int
				if _, err := fmt.Sscanf(m.Body, "%d.%d", &who, &n); err != nil || n != next[fmt.Sprint(who)] || i > 0 && m.Seq <= all[i-1].Seq {
					t.Errorf("%s is out of order", m.Body)
				}
				next[fmt.Sprint(who)]++
			}
			if len(all) != 32 {
				t.Errorf("%d messages", len(all))
			}
		}},
	)
}

// manyMessages read threads of several lengths with several limits. Each thread is made once.
func manyMessages() (all []Case) {
	for _, n := range []int{0, 1, 3, 60, 205} {
		var id string
		var once sync.Once
		for _, limit := range []int{-1, 0, 1, 2, 49, 50, 51, 200, 500} {
			all = append(all, Case{fmt.Sprintf("the newest %d of %d messages", limit, n), func(t *testing.T, w *World) {
				once.Do(func() {
					id = w.open(t, thread.Thread{Channel: "log", Address: newID()}).ID
					for i := range n {
						w.say(t, id, thread.Spoken{Role: thread.Assistant, Body: fmt.Sprint(i)})
					}
				})
				most := min(limit, 200)
				if limit <= 0 {
					most = 50
				}
				got := w.said(t, id, limit)
				if len(got) != min(n, most) {
					t.Fatalf("%d messages, want %d", len(got), min(n, most))
				}
				for i, m := range got {
					if want := fmt.Sprint(n - len(got) + i); m.Body != want {
						t.Fatalf("place %d has %s, want %s", i, m.Body, want)
					}
				}
			}})
		}
	}
	return all
}

func (w *World) say(t testing.TB, to string, m thread.Spoken) string {
	t.Helper()
	id, err := w.Durable.AppendMessage(t.Context(), w.Workspace, to, m)
	ok(t, err)
	return id
}

func (w *World) said(t testing.TB, in string, limit int) []thread.Spoken {
	t.Helper()
	got, err := w.Durable.GetMessages(t.Context(), w.Workspace, in, limit)
	ok(t, err)
	return got
}
