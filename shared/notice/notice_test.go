package notice_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/notice"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// mailbox is a channel that keeps what it gets.
type mailbox struct {
	name string
	mu   sync.Mutex
	got  []thread.Message
}

func (m *mailbox) Name() string { return m.name }

func (m *mailbox) Send(_ context.Context, msg thread.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got = append(m.got, msg)
	return nil
}

// TestPeopleAreTold: who is named in the settings is told of the events named there, over that
// channel, once; and of no others.
func TestPeopleAreTold(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		ids := func() string { return uuid.Must(uuid.NewV7()).String() }
		box, err1 := outbox.New(e.DB, ids, func() float64 { return 0 })
		spaces, err2 := workspace.New(e.DB)
		events, err3 := event.New(e.DB)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		slack, email := &mailbox{name: "slack"}, &mailbox{name: "email"}
		s := &outbox.Sender{Store: box, Holder: "test", Log: slog.New(slog.DiscardHandler), Handlers: notice.Handlers(slack, email)}
		tell := func(kind, subject, data string) {
			t.Helper()
			err := events.Tell(t.Context(), e.Workspace, event.Event{Kind: kind, Subject: subject, Trace: "co_0mh8c1v2q_a7x2p1k9d4", Data: []byte(data)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Drain(t.Context(), e.Workspace, 100); err != nil {
				t.Fatal(err)
			}
		}
		tell("agent.stale", ids(), `{"name":"builder"}`) // nobody is named yet
		w, err := spaces.Get(t.Context(), e.Workspace)
		if err != nil {
			t.Fatal(err)
		}
		err = e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := spaces.Patch(ctx, tx, w, workspace.Patch{Notifications: &[]workspace.Notification{
				{Channel: "slack", Address: "C024BE91L", Events: []string{"*"}},
				{Channel: "email", Address: "ada@example.com", Events: []string{"approval.requested", "budget.exhausted"}},
			}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		tell("approval.requested", "a-1", `{"agent":"ada","skill":"pay\nnow"}`)
		tell("agent.stale", "a-2", `{"name":"builder"}`)
		tell("memory.saved", "a-3", `{}`)
		if len(slack.got) != 2 || len(email.got) != 1 {
			t.Fatalf("slack: %+v, email: %+v", slack.got, email.got)
		}
		m := email.got[0]
		if m.Address != "ada@example.com" || m.Metadata["subject"] != "An approval is needed: ada wants to call pay now" ||
			!strings.Contains(m.Body, "bin/lanekeeper approvals show a-1") || !strings.Contains(m.Body, "co_0mh8c1v2q_a7x2p1k9d4") || m.Key == slack.got[0].Key {
			t.Errorf("%+v", m)
		}
		if slack.got[1].Address != "C024BE91L" || !strings.HasPrefix(slack.got[1].Body, "Agent builder has stopped answering.") {
			t.Errorf("%+v", slack.got[1])
		}
	})
}

// TestEveryEventHasAText: none is told by its name alone, also without data.
func TestEveryEventHasAText(t *testing.T) {
	for _, name := range endpoint.Events() {
		subject, body := notice.Text(endpoint.Happened{Event: name, Subject: "the-id", Micros: time.Now().UnixMicro()}, "")
		if strings.HasPrefix(subject, name) || strings.Contains(subject, "\n") || !strings.HasPrefix(body, subject+".\n") {
			t.Errorf("%s: %q, %q", name, subject, body)
		}
	}
}

// hanging is a channel that takes nothing before it is released.
type hanging struct {
	mailbox
	release chan struct{}
}

func (h *hanging) Send(context.Context, thread.Message) error {
	<-h.release
	return nil
}

// answers is the handler of messages of conversations.
type answers chan struct{}

func (a answers) Handle(context.Context, outbox.Claimed) error {
	close(a)
	return nil
}

// TestNoticesTakeNoPlaceOfMessages: a message is sent while notices over two channels hang.
func TestNoticesTakeNoPlaceOfMessages(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	ids := func() string { return uuid.Must(uuid.NewV7()).String() }
	box, err := outbox.New(e.DB, ids, func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	said := make(answers)
	slack, email := &hanging{mailbox{name: "slack"}, said}, &hanging{mailbox{name: "email"}, said}
	handlers := notice.Handlers(slack, email)
	handlers["message"] = said
	var b db.Batch
	for i := range 10 {
		for _, topic := range []string{"notice.slack", "notice.email"} {
			box.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Message, Topic: topic, Key: fmt.Sprint(topic, i)})
		}
	}
	box.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Message, Topic: "message", Key: "m"})
	if err := e.DB.Do(t.Context(), e.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { panic("the message waits for notices") })
	defer stop()
	s := &outbox.Sender{Store: box, Holder: "test", Log: slog.New(slog.DiscardHandler), Handlers: handlers}
	if sent, err := s.Drain(ctx, e.Workspace, 100); err != nil || sent.Sent != 21 {
		t.Errorf("%+v, %v", sent, err)
	}
}
