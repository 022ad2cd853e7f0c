package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// threadLock describes the lock of a thread and its holder.
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

	LastMessage *lastMessage  `json:"lastMessage,omitempty" doc:"Only in listings and of a single thread"`
	Holder      *threadHolder `json:"holder,omitempty" doc:"Left out: nobody has it"`
	ExpiresAt   *time.Time    `json:"expiresAt,omitempty" doc:"When the lock ends by itself, should nobody refresh it"`
}

// lastMessage is the beginning of the newest message of a conversation.
type lastMessage struct {
	Role thread.Role `json:"role" enum:"user,assistant,system,tool"`
	Text string      `json:"text" doc:"At most 300 characters"`
	At   time.Time   `json:"at"`
}

// threadHolder is the execution that has a conversation.
type threadHolder struct {
	ExecutionID string     `json:"executionId"`
	Agent       string     `json:"agent,omitempty"`
	ExpiresAt   *time.Time `json:"expiresAt,omitempty"`
	Stale       bool       `json:"stale" doc:"The next to ask takes the thread"`
}

// glanced adds to threads what a list of conversations shows.
func (s *server) glanced(ctx context.Context, found ...thread.Thread) ([]threadItem, error) {
	seen, err := s.Threads.Glances(ctx, workspace(ctx), found)
	if err != nil {
		return nil, err
	}
	items := make([]threadItem, len(found))
	for i, t := range found {
		items[i] = threadOf(t)
		g := seen[t.ID]
		if g.Role != "" {
			items[i].LastMessage = &lastMessage{g.Role, g.Text, g.At.UTC()}
		}
		if h := items[i].Holder; h != nil {
			h.Agent = g.Agent
		}
	}
	return items, nil
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
	if l := t.Lock; l.Holder != "" {
		item.ExpiresAt = utc(l.Expires())
		item.Holder = &threadHolder{ExecutionID: l.Execution(), ExpiresAt: item.ExpiresAt, Stale: l.State == thread.Stale}
	}
	return item
}

type threadOpened struct {
	Status   int
	Location string `header:"Location"`
	Body     threadItem
}

// openThread returns the conversation with an address, and creates it if there is none. It returns
// 201 for a new conversation, else 200. It is called by scripts.
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
		return nil, invalid(problem.At("body.metadata", "expected an object of texts")) // it does not repeat the names
	}
	id := s.newID(ctx)
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

// listThreads lists conversations, newest first. It is called by the Engine Room, which shows
// active and stale locks.
func (s *server) listThreads(ctx context.Context, in *struct {
	Channel string           `query:"channel" maxLength:"64"`
	Address string           `query:"address" maxLength:"512"`
	Lock    thread.LockState `query:"lock" enum:"active,stale"`
	Paging
}) (*answer[page[threadItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, more, err := s.Threads.List(ctx, workspace(ctx), thread.Filter{
		Channel: in.Channel, Address: in.Address, Lock: in.Lock, Before: before, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	items, err := s.glanced(ctx, found...)
	if err != nil {
		return nil, err
	}
	return listing(items, after(found, more, func(x thread.Thread) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} })), nil
}

// getThread returns one conversation. It is called by the Engine Room and by scripts.
func (s *server) getThread(ctx context.Context, in *IDPath) (*answer[threadItem], error) {
	t, err := s.Threads.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	items, err := s.glanced(ctx, t)
	if err != nil {
		return nil, err
	}
	return answered(items[0]), nil
}

// threadWaiter is a message that waits for a thread's lock.
type threadWaiter struct {
	MessageID   string     `json:"messageId" format:"uuid"`
	ExecutionID string     `json:"executionId,omitempty"`
	Since       time.Time  `json:"since"`
	AgeMS       int64      `json:"ageMs"`
	ExpiresAt   *time.Time `json:"expiresAt,omitempty" doc:"From then on it is not sent any more"`
}

// threadExplanation says why a thread is free or locked, as text and as data.
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

// explainThread says why a thread is free or locked, and who waits for it. It is called by the
// Engine Room and by lanekeeper threads why.
func (s *server) explainThread(ctx context.Context, in *IDPath) (*answer[threadExplanation], error) {
	var doing string
	told, err := s.Threads.Explain(ctx, workspace(ctx), in.ID, func(execution string) string {
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

// Speaker names the execution that acts on a thread.
type Speaker struct {
	ExecutionID string `json:"executionId" format:"uuid"`
}

// ownExecution reads an execution for the caller. An agent may read its own executions only.
func (s *server) ownExecution(ctx context.Context, execution string) (execution.Execution, error) {
	by, _ := auth.From(ctx)
	e, err := s.Runs.Get(ctx, by.Workspace, execution)
	if err == nil {
		err = own(by, e)
	}
	return e, err
}

// namedExecution is ownExecution for an execution that the body names. It returns absent if the
// execution does not exist.
func (s *server) namedExecution(ctx context.Context, execution string, absent *problem.Problem) (execution.Execution, error) {
	e, err := s.ownExecution(ctx, execution)
	if errors.Is(err, db.ErrNoRows) {
		err = absent
	}
	return e, err
}

func own(by auth.Principal, e execution.Execution) error {
	if by.Kind == auth.Agent && e.Agent != by.ID {
		return notYours
	}
	return nil
}

// record adds an activity about an execution to the transaction that changes it.
func (s *server) record(ctx context.Context, tx *db.Tx, e execution.Execution, what activity.Entry, input ...any) {
	by, _ := auth.From(ctx)
	what.Agent, what.Surface, what.Trace = e.Agent, e.Surface, e.Trace
	what.Execution, what.ParentExecution, what.Attempt = e.ID, e.Parent, e.Attempt
	what.Status = cmp.Or(what.Status, activity.Success)
	what.Input = object(append([]any{"by", principal(by)}, input...)...)
	s.Activity.Record(ctx, tx.Later(), what)
}

// unspeakable refuses a message to a thread whose channel cannot deliver it. The operator's own
// conversations have no channel.
var unspeakable = problem.New(http.StatusUnprocessableEntity, "no_channel",
	"the conversation's channel is not wired here, or does not reach its address")

// speakable returns unspeakable if the channel of a thread cannot deliver messages. Errors: also
// [db.ErrNoRows].
func (s *server) speakable(ctx context.Context, id string) error {
	t, err := s.Threads.Get(ctx, workspace(ctx), id)
	if err != nil {
		return err
	}
	return s.reaches(t)
}

func (s *server) reaches(t thread.Thread) error {
	if s.Reachable(t.Channel, t.Address) != nil {
		return unspeakable
	}
	return nil
}

// speaks reads an execution, as ownExecution does, and a thread, as speakable does, in one round
// trip.
func (s *server) speaks(ctx context.Context, execution, id string) (e execution.Execution, t thread.Thread, err error) {
	by, _ := auth.From(ctx)
	var b db.Batch
	es, ts := s.Runs.GetIn(&b, execution), s.Threads.GetIn(&b, id)
	if err := s.DB.Read(ctx, by.Workspace, &b); err != nil {
		return e, t, fmt.Errorf("read who speaks, and where: %w", err)
	}
	if len(*es) == 0 {
		return e, t, noSpeaker
	}
	if err := own(by, (*es)[0]); err != nil {
		return e, t, err
	}
	if len(*ts) == 0 {
		return e, t, fmt.Errorf("read thread %s: %w", id, db.ErrNoRows)
	}
	return (*es)[0], (*ts)[0], s.reaches((*ts)[0])
}

// lockThread locks a thread for an execution. It is called by agents.
func (s *server) lockThread(ctx context.Context, in *struct {
	IDPath
	Body Speaker
}) (*answer[threadItem], error) {
	if _, err := s.namedExecution(ctx, in.Body.ExecutionID, noSpeaker); err != nil {
		return nil, err
	}
	if err := s.speakable(ctx, in.ID); err != nil {
		return nil, err
	}
	ws := workspace(ctx)
	if _, err := s.Threads.Lock(ctx, ws, in.ID, in.Body.ExecutionID); err != nil {
		return nil, err
	}
	s.Kick(ws) // sends the messages that it had queued
	return s.getThread(ctx, &in.IDPath)
}

// unlockThread unlocks a thread, and its queue continues. It is called by agents.
func (s *server) unlockThread(ctx context.Context, in *struct {
	IDPath
	Body Speaker
}) (*answer[threadItem], error) {
	if _, err := s.namedExecution(ctx, in.Body.ExecutionID, noSpeaker); err != nil {
		return nil, err
	}
	ws := workspace(ctx)
	err := s.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		return s.Threads.Unlock(ctx, tx, in.ID, in.Body.ExecutionID)
	})
	if err != nil {
		return nil, err
	}
	s.Kick(ws)
	return s.getThread(ctx, &in.IDPath)
}

// forceUnlockThread removes a lock, whoever holds it. It is called by the Engine Room.
func (s *server) forceUnlockThread(ctx context.Context, in *struct {
	IDPath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500"`
	}
}) (*answer[threadItem], error) {
	var was thread.Lock
	err := s.change(ctx, "thread.force_unlock", func(ctx context.Context, tx *db.Tx) (err error) {
		was, err = s.Threads.ForceUnlock(ctx, tx, in.ID)
		if errors.Is(err, thread.ErrNotHeld) {
			err = problem.New(http.StatusConflict, "not_held", "nobody has the thread")
		}
		return err
	}, "thread", in.ID, "reason", in.Body.Reason)
	if err != nil {
		return nil, err
	}
	s.Log.WarnContext(ctx, "thread released by force", "thread", in.ID, "from", was.Execution(), "reason", in.Body.Reason)
	s.Kick(workspace(ctx))
	return s.getThread(ctx, &in.IDPath)
}

// parkThread keeps a thread locked while the execution waits for the person's answer. It is called
// by agents.
func (s *server) parkThread(ctx context.Context, in *struct {
	IDPath
	Body struct {
		Speaker
		Seconds        int    `json:"seconds,omitempty" minimum:"1" maximum:"31622400" doc:"How long at most; left out, and at most: threadParkingHours of the workspace's settings"`
		AfterMessageID string `json:"afterMessageId,omitempty" format:"uuid" doc:"The newest of the person's messages that it has read. When they have spoken since then, or, where it is left out, since something was sent last, it is refused (answered): there is nothing to wait for"`
	}
}) (*answer[threadItem], error) {
	e, err := s.namedExecution(ctx, in.Body.ExecutionID, noSpeaker)
	if err != nil {
		return nil, err
	}
	if err := s.speakable(ctx, in.ID); err != nil {
		return nil, err
	}
	ws := workspace(ctx)
	var b db.Batch
	settings := s.Workspaces.Settings(&b)
	if err := s.DB.Read(ctx, ws, &b); err != nil {
		return nil, err
	}
	bounds, err := settings()
	if err != nil {
		return nil, err
	}
	most := bounds.ThreadParkingHours * 3600
	if in.Body.Seconds > most {
		return nil, invalid(problem.At("body.seconds", fmt.Sprintf("is at most %d in this workspace", most)))
	}
	limit := time.Duration(cmp.Or(in.Body.Seconds, most)) * time.Second
	err = s.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		s.record(ctx, tx, e, activity.Entry{Skill: "execution.park", Thread: in.ID}, "seconds", int(limit.Seconds()))
		return s.Threads.Park(ctx, tx, in.ID, e.ID, in.Body.AfterMessageID, limit)
	})
	if err != nil {
		return nil, err
	}
	return s.getThread(ctx, &in.IDPath)
}
