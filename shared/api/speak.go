package api

import (
	"context"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// Speaker names the execution that speaks.
type Speaker struct {
	ExecutionID string `json:"executionId" format:"uuid"`
}

// mayAct refuses an agent what is not its own.
func (s *server) mayAct(ctx context.Context, execution string) error {
	by, _ := auth.From(ctx)
	if by.Kind != auth.Agent {
		return nil
	}
	e, err := s.Runs.Get(ctx, by.Workspace, execution)
	if err == nil && e.Agent != by.ID {
		err = auth.ErrForbidden
	}
	return err
}

// lockThread takes a thread for an execution. It is called by agents.
func (s *server) lockThread(ctx context.Context, in *struct {
	IDPath
	Body Speaker
}) (*answer[threadItem], error) {
	if err := s.mayAct(ctx, in.Body.ExecutionID); err != nil {
		return nil, err
	}
	if _, err := s.Threads.Lock(ctx, workspace(ctx), in.id(), in.Body.ExecutionID); err != nil {
		return nil, err
	}
	return s.getThread(ctx, &in.IDPath)
}

// unlockThread lets go of a thread; the queue goes on. It is called by agents.
func (s *server) unlockThread(ctx context.Context, in *struct {
	IDPath
	Body Speaker
}) (*answer[threadItem], error) {
	if err := s.mayAct(ctx, in.Body.ExecutionID); err != nil {
		return nil, err
	}
	ws := workspace(ctx)
	err := s.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		return s.Threads.Unlock(ctx, tx, in.id(), in.Body.ExecutionID)
	})
	if err != nil {
		return nil, err
	}
	s.Kick(ws)
	return s.getThread(ctx, &in.IDPath)
}

// forceUnlockThread clears a lock, whoever has it. It is called by the Engine Room.
func (s *server) forceUnlockThread(ctx context.Context, in *struct {
	IDPath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500"`
	}
}) (*answer[threadItem], error) {
	err := s.change(ctx, "threads.force_unlock", func(ctx context.Context, tx *db.Tx) error {
		_, err := s.Threads.ForceUnlock(ctx, tx, in.id(), in.Body.Reason)
		return err
	}, "thread", in.id(), "reason", in.Body.Reason)
	if err != nil {
		return nil, err
	}
	s.Kick(workspace(ctx))
	return s.getThread(ctx, &in.IDPath)
}

// parkThread keeps a thread while the execution waits for the person. It is called by
// agents.
func (s *server) parkThread(ctx context.Context, in *struct {
	IDPath
	Body struct {
		Speaker
		Seconds int `json:"seconds,omitempty" minimum:"1" maximum:"259200" doc:"How long at most; left out: 72 hours"`
	}
}) (*answer[threadItem], error) {
	if err := s.mayAct(ctx, in.Body.ExecutionID); err != nil {
		return nil, err
	}
	err := s.DB.Tx(ctx, workspace(ctx), func(ctx context.Context, tx *db.Tx) error {
		return s.Threads.Park(ctx, tx, in.id(), in.Body.ExecutionID, time.Duration(in.Body.Seconds)*time.Second)
	})
	if err != nil {
		return nil, err
	}
	return s.getThread(ctx, &in.IDPath)
}

type messageReceived struct {
	MessageID          string `json:"messageId" format:"uuid"`
	ResumedExecutionID string `json:"resumedExecutionId,omitempty" doc:"Which had waited for the answer, and goes on"`
}

// addMessage stores what the person has said; who waits for it goes on. It is called
// by what receives messages for a channel.
func (s *server) addMessage(ctx context.Context, in *struct {
	IDPath
	Body struct {
		Body           string `json:"body" minLength:"1" maxLength:"65536"`
		IdempotencyKey string `json:"idempotencyKey,omitempty" maxLength:"200" doc:"A thread has one message of a key"`
	}
}) (*creation[messageReceived], error) {
	id := s.IDs()
	var resumed string
	err := s.DB.Tx(ctx, workspace(ctx), func(ctx context.Context, tx *db.Tx) (err error) {
		resumed, err = s.Threads.Append(ctx, tx, in.id(), thread.Spoken{ID: id, Role: thread.User, Body: in.Body.Body, Key: in.Body.IdempotencyKey})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &creation[messageReceived]{Location: "/api/v1/threads/" + in.id() + "/messages", Body: messageReceived{id, resumed}}, nil
}

// messageSent says what became of a message.
type messageSent struct {
	Success   bool   `json:"success"`
	Queued    bool   `json:"queued" doc:"It has not been spoken yet: another execution has the thread"`
	Position  int    `json:"position,omitempty" doc:"Among the queued, from 1"`
	MessageID string `json:"messageId" format:"uuid"`
}

type sendAnswer struct {
	Status int
	Body   messageSent
}

// sendMessage speaks in a thread, or queues what is to be said. It is called by
// agents.
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
	if err := s.mayAct(ctx, in.Body.ExecutionID); err != nil {
		return nil, err
	}
	ws := workspace(ctx)
	var sent thread.Sent
	err := s.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) (err error) {
		sent, err = s.Threads.Send(ctx, tx, thread.Outgoing{
			Thread: in.id(), Execution: in.Body.ExecutionID, Body: in.Body.Body, Key: in.Body.IdempotencyKey,
			SupersedeKey: in.Body.SupersedeKey, TTL: time.Duration(in.Body.TTLSeconds) * time.Second,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &sendAnswer{http.StatusOK, messageSent{true, sent.Queued, sent.Position, sent.ID}}
	if sent.Queued {
		out.Status = http.StatusAccepted
	} else {
		s.Kick(ws)
	}
	return out, nil
}
