package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// threadLock is who has a thread.
type threadLock struct {
	State       thread.LockState `json:"state" enum:"active,stale" doc:"stale: the next to ask takes the thread"`
	ExecutionID string           `json:"executionId" doc:"Who has it, or whose message has it for its own send"`
	Stack       []string         `json:"stack" nullable:"false" doc:"Who waits below it, and itself last"`
	LockedAt    time.Time        `json:"lockedAt" doc:"Taken, or refreshed by a send or a step"`
	AgeMS       int64            `json:"ageMs"`
	ParkedBy    string           `json:"parkedBy,omitempty" doc:"The execution that waits for the person's answer"`
	ParkedUntil *time.Time       `json:"parkedUntil,omitempty"`
}

// threadItem is a conversation.
type threadItem struct {
	ID        string            `json:"id" format:"uuid"`
	Channel   string            `json:"channel"`
	Address   string            `json:"address"`
	Policy    thread.Policy     `json:"policy" enum:"queue,supersede,hand_over" doc:"What others may do while its owner waits for the person's answer"`
	Metadata  map[string]string `json:"metadata"`
	Lock      *threadLock       `json:"lock,omitempty" doc:"Left out: it is free"`
	Queued    int               `json:"queued" doc:"Messages that wait for the lock"`
	CreatedAt time.Time         `json:"createdAt"`
	UpdatedAt time.Time         `json:"updatedAt"`
}

func threadOf(t thread.Thread) threadItem {
	item := threadItem{
		ID: t.ID, Channel: t.Channel, Address: t.Address, Policy: t.Policy, Metadata: t.Metadata, Queued: t.Queued,
		CreatedAt: t.CreatedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(),
	}
	if l := t.Lock; l.Holder != "" {
		item.Lock = &threadLock{
			State: l.State, ExecutionID: l.Execution(), Stack: l.Stack, LockedAt: l.Since.UTC(), AgeMS: l.Age.Milliseconds(),
			ParkedBy: l.ParkedBy, ParkedUntil: l.ParkedUntil,
		}
	}
	return item
}

type threadOpened struct {
	Status   int
	Location string `header:"Location"`
	Body     threadItem
}

// openThread answers the conversation with an address: 201 for a new one, 200 for one
// that is there. It is called by scripts.
func (s *server) openThread(ctx context.Context, in *struct {
	Body struct {
		Channel  string          `json:"channel" minLength:"1" maxLength:"64" doc:"http, slack, email, sms or, on a laptop, log"`
		Address  string          `json:"address" minLength:"1" maxLength:"512" doc:"Of the person, on the channel"`
		Policy   thread.Policy   `json:"policy,omitempty" enum:"queue,supersede,hand_over" doc:"What others may do while its owner waits for the person's answer; left out: queue"`
		Metadata json.RawMessage `json:"metadata,omitempty" doc:"An object of texts, 4 KiB at most"`
	}
}) (*threadOpened, error) {
	if err := s.Reachable(in.Body.Channel, in.Body.Address); err != nil {
		return nil, err
	}
	var metadata map[string]string
	if len(in.Body.Metadata) > 0 && json.Unmarshal(in.Body.Metadata, &metadata) != nil {
		return nil, invalid(problem.At("body.metadata", "expected an object of texts")) // its names are the caller's: they are not repeated
	}
	id := s.IDs()
	t, err := s.Threads.Open(ctx, workspace(ctx), thread.Thread{
		ID: id, Channel: in.Body.Channel, Address: in.Body.Address, Policy: in.Body.Policy, Metadata: metadata,
	})
	if err != nil {
		return nil, err
	}
	out := &threadOpened{Status: http.StatusOK, Body: threadOf(t)}
	if t.ID == id {
		out.Status, out.Location = http.StatusCreated, "/api/v1/threads/"+id
	}
	return out, nil
}

// listThreads is called by the Engine Room, which shows active and stale locks.
func (s *server) listThreads(ctx context.Context, in *struct {
	Channel string           `query:"channel" maxLength:"64"`
	Address string           `query:"address" maxLength:"512"`
	Lock    thread.LockState `query:"lock" enum:"active,stale"`
	Cursor  string           `query:"cursor" maxLength:"200"`
	Limit   int              `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[threadItem]], error) {
	at, id, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, more, err := s.Threads.List(ctx, workspace(ctx), thread.Filter{
		Channel: in.Channel, Address: in.Address, Lock: in.Lock, Before: thread.Position{At: at, ID: id}, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	items, next := make([]threadItem, len(found)), ""
	for i, t := range found {
		items[i] = threadOf(t)
		if more {
			next = cursor{t.CreatedAt, t.ID}.String()
		}
	}
	return listing(items, next), nil
}

// getThread is called by the Engine Room and by scripts.
func (s *server) getThread(ctx context.Context, in *IDPath) (*answer[threadItem], error) {
	t, err := s.Threads.Get(ctx, workspace(ctx), in.id())
	if err != nil {
		return nil, err
	}
	return answered(threadOf(t)), nil
}

// threadWaiter is a message that waits for a thread's lock.
type threadWaiter struct {
	MessageID   string     `json:"messageId" format:"uuid"`
	ExecutionID string     `json:"executionId,omitempty"`
	Since       time.Time  `json:"since"`
	AgeMS       int64      `json:"ageMs"`
	ExpiresAt   *time.Time `json:"expiresAt,omitempty" doc:"From then on it is not sent any more"`
}

// threadExplanation says why a thread is free or not, in words and as data.
type threadExplanation struct {
	ThreadID string         `json:"threadId" format:"uuid"`
	Held     bool           `json:"held"`
	Summary  string         `json:"summary"`
	Lock     *threadLock    `json:"lock,omitempty" doc:"Left out: it is free"`
	Doing    string         `json:"doing,omitempty" doc:"What the holder is at"`
	FreesAt  *time.Time     `json:"freesAt,omitempty" doc:"When the lock ends by itself, should nobody refresh it: it was idle for too long, or parked"`
	Queued   int            `json:"queued"`
	Waiting  []threadWaiter `json:"waiting" nullable:"false" doc:"The messages that wait, the first to go first, 50 at most"`
	Blocking []threadBlock  `json:"blocking" nullable:"false" doc:"For whom the holder waits, for whom that one waits, and so on, 50 at most"`
	Circle   []string       `json:"circle,omitempty" doc:"Executions each of which waits for the next, and the last for the first"`
}

// threadBlock is an execution that waits for another.
type threadBlock struct {
	ExecutionID string `json:"executionId" format:"uuid"`
	ThreadID    string `json:"threadId,omitempty" doc:"It has a message queued in this thread; left out: it waits for the end of an execution that it has begun"`
	Holder      string `json:"holder" format:"uuid" doc:"The execution that it waits for"`
}

// explainThread says why a thread is free or not, and who waits for it. It is called
// by the Engine Room and by lanekeeper threads why.
func (s *server) explainThread(ctx context.Context, in *IDPath) (*answer[threadExplanation], error) {
	var doing string
	told, err := s.Threads.Explain(ctx, workspace(ctx), in.id(), func(execution string) string {
		doing = s.doing(ctx, execution)
		return doing
	})
	if err != nil {
		return nil, err
	}
	e := threadExplanation{
		ThreadID: told.ID, Held: told.Lock.State == thread.Active, Summary: told.Summary, Lock: threadOf(told.Thread).Lock, Doing: doing,
		FreesAt: utc(told.Frees), Queued: told.Queued, Waiting: make([]threadWaiter, len(told.Waiting)),
		Blocking: make([]threadBlock, len(told.Blocking)), Circle: told.Circle,
	}
	for i, b := range told.Blocking {
		e.Blocking[i] = threadBlock{b.Execution, b.Thread, b.Holder}
	}
	for i, w := range told.Waiting {
		e.Waiting[i] = threadWaiter{w.Message, w.Execution, w.Since.UTC(), w.Age.Milliseconds(), utc(w.Expires)}
	}
	return answered(e), nil
}

// messageItem is what was spoken.
type messageItem struct {
	ID          string      `json:"id" format:"uuid"`
	Role        thread.Role `json:"role" enum:"user,assistant,system,tool"`
	Body        string      `json:"body"`
	ExecutionID string      `json:"executionId,omitempty"`
	CreatedAt   time.Time   `json:"createdAt"`
}

// listMessages lists what was spoken in a thread, oldest first. It is called by the
// Engine Room and by scripts.
func (s *server) listMessages(ctx context.Context, in *struct {
	IDPath
	Cursor string `query:"cursor" maxLength:"200"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[messageItem]], error) {
	from, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := s.Threads.Get(ctx, workspace(ctx), in.id()); err != nil {
		return nil, err
	}
	var after int64
	if from.key != "" {
		if after, err = strconv.ParseInt(from.key, 10, 64); err != nil || after < 0 {
			return nil, badCursor
		}
	}
	found, more, err := s.Threads.Messages(ctx, workspace(ctx), in.id(), after, in.Limit)
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

// outgoingItem is a message on its way.
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

// listThreadOutbox lists what was sent in a thread or waits to be, newest first. It
// is called by the Engine Room and by lanekeeper threads outbox.
func (s *server) listThreadOutbox(ctx context.Context, in *struct {
	IDPath
	Status outbox.Status `query:"status" enum:"queued,ready,sending,sent,failed,superseded,expired,uncertain,dead"`
	Cursor string        `query:"cursor" maxLength:"200"`
	Limit  int           `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[outgoingItem]], error) {
	at, id, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := s.Threads.Get(ctx, workspace(ctx), in.id()); err != nil {
		return nil, err
	}
	found, more, err := s.Threads.Outbox(ctx, workspace(ctx), in.id(), outbox.Filter{Status: in.Status, Before: outbox.Position{At: at, ID: id}, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	items, next := make([]outgoingItem, len(found)), ""
	for i, e := range found {
		if more {
			next = cursor{e.CreatedAt, e.ID}.String()
		}
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
	return listing(items, next), nil
}
