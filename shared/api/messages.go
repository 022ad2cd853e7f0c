package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// messageItem is one message of a conversation.
type messageItem struct {
	ID          string      `json:"id" format:"uuid"`
	Role        thread.Role `json:"role" enum:"user,assistant,system,tool"`
	Body        string      `json:"body"`
	ExecutionID string      `json:"executionId,omitempty"`
	CreatedAt   time.Time   `json:"createdAt"`
}

// listMessages lists the messages of a thread, oldest first. It is called by the Engine Room and by
// scripts.
func (s *server) listMessages(ctx context.Context, in *struct {
	IDPath
	Paging
}) (*answer[page[messageItem]], error) {
	from, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := s.Threads.Get(ctx, workspace(ctx), in.ID); err != nil {
		return nil, err
	}
	var after int64
	if from.key != "" {
		if after, err = strconv.ParseInt(from.key, 10, 64); err != nil || after < 0 {
			return nil, badCursor
		}
	}
	found, more, err := s.Threads.Messages(ctx, workspace(ctx), in.ID, after, in.Limit)
	if err != nil {
		return nil, err
	}
	items, next := make([]messageItem, len(found)), ""
	for i, m := range found {
		if more {
			next = keyCursor(strconv.FormatInt(m.Seq, 10))
		}
		items[i] = messageItem{ID: m.ID, Role: m.Role, Body: m.Body, ExecutionID: m.Execution, CreatedAt: m.CreatedAt.UTC()}
	}
	return listing(items, next), nil
}

// outgoingItem is an outgoing message in the outbox.
type outgoingItem struct {
	ID          string        `json:"id" format:"uuid"`
	Body        string        `json:"body"`
	Status      outbox.Status `json:"status" enum:"queued,ready,sending,sent,failed,superseded,expired,uncertain,dead"`
	ExecutionID string        `json:"executionId,omitempty"`
	Attempts    int           `json:"attempts"`
	LastError   string        `json:"lastError,omitempty"`
	DueAt       time.Time     `json:"dueAt"`
	ExpiresAt   *time.Time    `json:"expiresAt,omitempty"`
	CreatedAt   time.Time     `json:"createdAt"`
	SentAt      *time.Time    `json:"sentAt,omitempty"`
}

// listThreadOutbox lists the outgoing messages of a thread, newest first. It is called by the
// Engine Room and by lanekeeper threads outbox.
func (s *server) listThreadOutbox(ctx context.Context, in *struct {
	IDPath
	Status outbox.Status `query:"status" enum:"queued,ready,sending,sent,failed,superseded,expired,uncertain,dead"`
	Paging
}) (*answer[page[outgoingItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := s.Threads.Get(ctx, workspace(ctx), in.ID); err != nil {
		return nil, err
	}
	found, more, err := s.Threads.Outbox(ctx, workspace(ctx), in.ID, outbox.Filter{Status: in.Status, Before: before, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	items := make([]outgoingItem, len(found))
	for i, e := range found {
		items[i] = outgoingItem{
			ID: e.ID, Status: e.Status, ExecutionID: e.Execution, Attempts: e.Attempts, LastError: e.LastError,
			DueAt: e.DueAt.UTC(), ExpiresAt: e.ExpiresAt, CreatedAt: e.CreatedAt.UTC(), SentAt: e.SentAt,
		}
		var said struct{ Body string }
		if err := json.Unmarshal(e.Payload, &said); err != nil {
			return nil, err
		}
		items[i].Body = said.Body
	}
	return listing(items, after(found, more, func(x outbox.Entry) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} })), nil
}

type messageReceived struct {
	MessageID          string `json:"messageId" format:"uuid"`
	ResumedExecutionID string `json:"resumedExecutionId,omitempty" doc:"Which had waited for the answer, and goes on"`
}

// addMessage stores a message of the person. An execution that waits for it continues. It is called
// by programs that receive messages for a channel.
func (s *server) addMessage(ctx context.Context, in *struct {
	IDPath
	Body struct {
		Body           string `json:"body" minLength:"1" maxLength:"65536"`
		IdempotencyKey string `json:"idempotencyKey,omitempty" maxLength:"200" doc:"A thread has one message of a key"`
	}
}) (*creation[messageReceived], error) {
	if err := s.speakable(ctx, in.ID); err != nil {
		return nil, err
	}
	var id, resumed string
	err := s.DB.Tx(ctx, workspace(ctx), func(ctx context.Context, tx *db.Tx) (err error) {
		id, resumed, err = s.Threads.Append(ctx, tx, in.ID,
			thread.Spoken{Role: thread.User, Body: discreet(ctx, in.Body.Body), Key: cmp.Or(in.Body.IdempotencyKey, claimedID(ctx))})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &creation[messageReceived]{Location: "/api/v1/threads/" + in.ID + "/messages", Body: messageReceived{id, resumed}}, nil
}

// messageSent describes the state of a message.
type messageSent struct {
	Success   bool          `json:"success"`
	Queued    bool          `json:"queued" doc:"It has not been spoken yet: another execution has the thread"`
	Position  int           `json:"position,omitempty" doc:"Among the queued, from 1"`
	MessageID string        `json:"messageId" format:"uuid"`
	Status    outbox.Status `json:"status" enum:"queued,ready,sending,sent" doc:"sent: the channel has it"`
}

type sendAnswer struct {
	Status int
	Body   messageSent
}

// sent returns the response for a message that was sent or queued.
func (s *server) sent(m thread.Sent) *sendAnswer {
	out := &sendAnswer{http.StatusOK, messageSent{true, m.Queued, m.Position, m.ID, m.Status}}
	if m.Queued {
		out.Status = http.StatusAccepted
	}
	return out
}

// sendMessage sends a message in a thread, or queues it while another execution holds the thread.
// It is called by agents.
func (s *server) sendMessage(ctx context.Context, in *struct {
	IDPath
	Body struct {
		Speaker
		Body           string `json:"body" minLength:"1" maxLength:"65536"`
		IdempotencyKey string `json:"idempotencyKey,omitempty" maxLength:"200" doc:"A thread sends one message of a key"`
		TTLSeconds     int    `json:"ttlSeconds,omitempty" minimum:"1" maximum:"2592000" doc:"After which it is not sent any more"`
		SupersedeKey   string `json:"supersedeKey,omitempty" maxLength:"200" doc:"Has messages of the same key that wait give way"`
	}
}) (*sendAnswer, error) {
	e, t, err := s.speaks(ctx, in.Body.ExecutionID, in.ID)
	if err != nil {
		return nil, err
	}
	if err := channel.CheckBody(t.Channel, in.Body.Body); err != nil {
		return nil, err
	}
	var sent thread.Sent
	err = s.DB.Tx(ctx, workspace(ctx), func(ctx context.Context, tx *db.Tx) (err error) {
		sent, err = s.Threads.Send(ctx, tx, thread.Outgoing{
			Thread: in.ID, Execution: e.ID, Body: discreet(ctx, in.Body.Body),
			Key:          cmp.Or(in.Body.IdempotencyKey, claimedID(ctx)),
			SupersedeKey: in.Body.SupersedeKey, TTL: time.Duration(in.Body.TTLSeconds) * time.Second,
		})
		s.record(ctx, tx, e, activity.Entry{Skill: "thread.send", Thread: in.ID}, "message", sent.ID, "queued", sent.Queued)
		return err
	})
	if err != nil {
		return nil, err
	}
	if sent.Status == outbox.Ready || in.Body.SupersedeKey != "" { // one that waited behind a superseded message may be next
		s.Send(workspace(ctx))
	}
	return s.sent(sent), nil
}

// resendMessage queues a message again that has failed or whose outcome is unknown, after all
// queued messages. It refuses an expired message. It is called by the Engine Room and by lanekeeper
// threads resend.
func (s *server) resendMessage(ctx context.Context, in *struct {
	IDPath
	MessageID string `path:"messageId" format:"uuid"`
	Body      *struct{}
}) (*sendAnswer, error) {
	if err := s.speakable(ctx, in.ID); err != nil {
		return nil, err
	}
	var sent thread.Sent
	err := s.change(ctx, "thread.resend", func(ctx context.Context, tx *db.Tx) (err error) {
		sent, err = s.Threads.Resend(ctx, tx, in.ID, in.MessageID)
		return err
	}, "thread", in.ID, "message", in.MessageID)
	if err != nil {
		return nil, err
	}
	s.Kick(workspace(ctx)) // another execution's message may have waited for it
	return s.sent(sent), nil
}
