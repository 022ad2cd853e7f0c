package operate

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

//go:embed operate.md
var prompt string

// Multitask says what a message does that comes while a turn runs.
type Multitask string

// The ways of a message that comes while a turn runs.
const (
	Enqueue   Multitask = "enqueue"   // it waits for its turn, behind those that came before it
	Reject    Multitask = "reject"    // it is refused with a [lane.BusyError]
	Interrupt Multitask = "interrupt" // the running turn is cancelled, and what it has done is kept
	Rollback  Multitask = "rollback"  // the running turn is cancelled, and its messages and records go
)

// Channel is that of the threads in which people talk with the agent.
const Channel = "operate"

// Turn is one message of a person.
type Turn struct {
	Message string
	Thread  string // empty: a new one
	// Multitask is what to do about a running turn; empty: enqueue.
	Multitask Multitask
	By        string // who talks
	// Limited are those who may use the skills that need no approval, and interrupt no
	// turn but their own.
	Limited bool
	// Begun is told once the turn is written down, and can no longer be lost. It may
	// be nil, as may Tell, which is told what happens as it happens.
	Begun func(execution, thread string)
	Tell  func(Event)
}

var (
	// ErrNoThread says that there is no such conversation with the agent.
	ErrNoThread = errors.New("there is no such thread")
	// ErrNotYours says that the running turn is somebody else's.
	ErrNotYours = errors.New("the running turn is another person's: only an admin may end it")
	// errLater says that the time was up before the turn came to its turn.
	errLater = &work.ParkedError{Why: "it waits for the turns before it"}
)

// talking is the task of an execution that is a turn.
const talking = "turn"

// asked is the input of such an execution.
type asked struct {
	Task    string `json:"task"`
	Thread  string `json:"thread_id"`
	Message string `json:"message"`
	By      string `json:"by"`
	Limited bool   `json:"limited,omitempty"`
}

// askedOf is what a turn was asked; false: the execution is none.
func askedOf(e execution.Execution) (a asked, ok bool) {
	err := json.Unmarshal(e.Input, &a)
	return a, err == nil && a.Task == talking && e.Surface == trace.Operate
}

// turn is a turn on its way.
type turn struct {
	*Operate
	asked
	ws        db.Workspace
	exec      execution.Execution
	fresh     bool                   // its thread is not there yet
	started   bool                   // its execution is
	resumed   bool                   // it was begun before
	ended     *[]execution.Execution // as its last transaction has left it
	hold      *lane.Hold             // of the execution
	operate   *lane.Hold
	worked    time.Time // since when
	multitask Multitask
	stays     []Effect // of the turn that it took the place of
	begun     func(execution, thread string)
	also      func(context.Context, *db.Batch) // what is written with its execution
	tell      teller
}

// Talk has one turn with the agent: it takes lane operate, writes the message down,
// works, and writes the answer down. What was written is not lost: a turn that is
// cut off goes on when its row in the outbox is due. The context should not end
// because whoever asked has left. It is called by POST /api/v1/operate.
func (o *Operate) Talk(ctx context.Context, ws db.Workspace, t Turn) (Reply, error) {
	id, _ := trace.From(ctx)
	s := &turn{
		Operate: o, ws: ws, multitask: cmp.Or(t.Multitask, Enqueue), begun: t.Begun, tell: teller{emit: t.Tell}, fresh: t.Thread == "",
		asked: asked{Task: talking, Thread: t.Thread, Message: t.Message, By: t.By, Limited: t.Limited},
	}
	if s.fresh {
		s.Thread = o.IDs()
	} else if found, err := o.Threads.Get(ctx, ws, t.Thread); errors.Is(err, db.ErrNoRows) || err == nil && found.Channel != Channel {
		return Reply{}, ErrNoThread
	} else if err != nil {
		return Reply{}, err
	}
	s.exec = execution.Execution{ID: o.IDs(), Agent: activity.Operator, Surface: trace.Operate, Trace: id, Attempt: 1, Input: encode(s.asked)}
	s.exec.Subject = lane.Execution(s.exec.ID)
	ctx, cancel := lane.WithLastWrites(trace.WithExecution(ctx, s.exec.ID))
	defer cancel()
	unit := s.unit()
	unit.Fresh = true
	unit.Enter = func(ctx context.Context, e *work.Entry) error { return s.enter(ctx, e, s.stand) }
	_, err := o.do(ctx, ws, s.exec, unit)
	s.tell.restart() // what is not recorded by now is no answer
	return s.reply(ctx, err)
}

// unit is the turn as a unit of work.
func (s *turn) unit() work.Unit {
	return work.Unit{Name: "turn", Kick: kickFor(s.exec, lookAfter), Begin: s.begin, Act: s.work, End: s.end}
}

// enter takes lane operate, in the way of take.
func (s *turn) enter(ctx context.Context, e *work.Entry, take func(context.Context, *work.Entry) error) error {
	s.hold = e.Hold
	err := take(ctx, e)
	if s.operate != nil {
		e.Take(s.operate)
	}
	return err
}

// begin writes down the turn: its thread, its execution, and a kick by which it goes on if
// it is cut off; and, once it has lane operate, what the person said.
func (s *turn) begin(ctx context.Context, st *work.Start) error {
	switch {
	case s.resumed:
		if err := st.Resume(ctx, st.Open[0]); err != nil {
			return err
		}
	case !st.Begun:
		if s.fresh {
			s.Threads.OpenIn(st.Later(), s.Thread, Channel, s.Thread)
		}
		if err := st.New(ctx, s.exec); err != nil {
			return err
		}
		if s.also != nil {
			s.also(ctx, st.Later())
		}
	}
	if s.operate == nil { // it stands in line
		return nil
	}
	return s.say(ctx, st.Tx, s.Thread, thread.Spoken{Role: thread.User, Body: s.Message, Execution: s.exec.ID,
		Key: s.exec.ID + ":asked", First: !s.resumed})
}

// lookAfter is when a turn's row in the outbox is due for the first time. Whoever has it
// then looks whether the turn is still worked on, as its lane says, and after a while
// again.
const lookAfter = 30 * time.Second

// maxAttempts is how often it is tried to go on with a turn, over an hour and more.
const maxAttempts = 20

// kickOf is the key of the row by which an execution goes on.
func kickOf(execution string) string { return "execution:" + execution }

// queue writes the turn down while it waits in line, behind so many others.
func (s *turn) queue(ctx context.Context, e *work.Entry, ahead int) error {
	if s.started {
		return nil
	}
	settings, err := s.settings(ctx, s.ws)
	if err != nil {
		return err
	}
	if ahead > settings.SessionQueue { // one of them works
		return ErrLine
	}
	if err := e.Begin(ctx); err != nil {
		return err
	}
	s.running()
	return nil
}

// say writes a message into a thread, once.
func (s *turn) say(ctx context.Context, tx lane.Tx, to string, m thread.Spoken) error {
	_, _, err := s.Threads.Append(ctx, tx, to, m)
	return err
}

// running notes that the turn is written down.
func (s *turn) running() {
	if !s.started && s.begun != nil {
		s.begun(s.exec.ID, s.Thread)
	}
	s.started = true
}

// Reply is what came of a turn so far.
type Reply struct {
	Status    execution.Status // of its execution; parked: it goes on by itself
	Answer    string
	Reason    string // why it is not completed, or what its answer lacks
	Execution string
	Trace     trace.ID
	Thread    string
	// Prompt and Completion count the tokens of its model calls.
	Prompt, Completion int64
	// Approvals are what it waits for.
	Approvals []string
	// NotUndone are the effects of a turn that was rolled back which stay.
	NotUndone []Effect
}

// replyOf reads how a turn stands.
func replyOf(e execution.Execution) Reply {
	var result struct {
		Answer  string   `json:"answer"`
		Reason  string   `json:"reason"`
		Summary string   `json:"summary"`
		Waits   []string `json:"waits"`
	}
	_ = json.Unmarshal(e.Result, &result) // none: it has not come that far
	a, _ := askedOf(e)
	r := Reply{
		Status: e.Status, Answer: result.Answer, Reason: cmp.Or(result.Reason, e.Error), Execution: e.ID, Trace: e.Trace, Thread: a.Thread,
		Prompt: e.PromptTokens, Completion: e.CompletionTokens,
	}
	switch e.Status {
	case execution.Waiting:
		r.Approvals, r.Reason = result.Waits, "a call waits for a person"
	case execution.Running, execution.Parked: // one that was cut off runs no more
		r.Status, r.Reason = execution.Parked, cmp.Or(r.Reason, "it was cut off")+"; it goes on by itself"
	case execution.Stalled, execution.Failed, execution.Cancelled:
		if result.Summary != "" {
			r.Reason += "; " + result.Summary
		}
	case execution.Completed:
	}
	return r
}

// reply reads how the turn stands after it ended with err. One that is written down
// goes on by itself, whatever has cut it off here.
func (s *turn) reply(ctx context.Context, err error) (Reply, error) {
	if !s.started {
		return Reply{}, err
	}
	if err != nil {
		s.Log.WarnContext(ctx, "a turn was cut off", "error", err)
		s.ended = nil
	}
	r := replyOf(s.stands(ctx))
	r.NotUndone = s.stays
	return r, nil
}

// stands is the turn's execution as it is now.
func (s *turn) stands(ctx context.Context) execution.Execution {
	if s.ended != nil && len(*s.ended) > 0 {
		return (*s.ended)[0]
	}
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	e, err := s.Runs.Get(last, s.ws, s.exec.ID)
	if err != nil {
		s.Log.ErrorContext(ctx, "how a turn stands can't be read", "error", err)
		e = s.exec
		e.Status = execution.Running
	}
	return e
}

// stopped is the reason of a turn that was taken another's place of.
func stopped(mode Multitask, by string) string { return fmt.Sprintf("%s by %s", mode, by) }
