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
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
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
	errLater = errors.New("the time was up, in line")
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
	fresh     bool                 // its thread is not there yet
	started   bool                 // its execution is
	resumed   bool                 // it was begun before
	ended     *execution.Execution // as its last transaction has left it
	hold      *lane.Hold           // of the execution
	operate   *lane.Hold
	multitask Multitask
	token     string   // of the hold of lane operate
	stays     []Effect // of the turn that it took the place of
	begun     func(execution, thread string)
	tell      teller
}

// Talk has one turn with the agent: it takes lane operate, writes the message down,
// works, and writes the answer down. What was written is not lost: a turn that is
// cut off goes on when its row in the outbox is due. The context should not end
// because whoever asked has left. It is called by POST /api/v1/operate.
func (o *Operate) Talk(ctx context.Context, ws db.Workspace, t Turn) (Reply, error) {
	id, _ := trace.From(ctx)
	s := &turn{
		Operate: o, ws: ws, token: o.IDs(), multitask: cmp.Or(t.Multitask, Enqueue), begun: t.Begun, tell: teller{emit: t.Tell}, fresh: t.Thread == "",
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
	ctx = trace.WithExecution(ctx, s.exec.ID)
	err := o.under(ctx, ws, s.exec, func(ctx context.Context, hold *lane.Hold) error {
		s.hold = hold
		defer s.leave(ctx)
		err := s.run(ctx)
		if err != nil && ctx.Err() != nil {
			err = errors.Join(err, s.park(ctx, err))
		}
		return err
	})
	s.tell.restart() // what is not recorded by now is no answer
	return s.reply(ctx, err)
}

func (s *turn) run(ctx context.Context) error {
	if err := s.entered(s.enter(ctx)); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.work(ctx)
}

// entered notes the hold that may have been granted without an answer, so that it is
// given back.
func (s *turn) entered(err error) error {
	if errors.Is(err, db.ErrUncertain) || errors.Is(err, db.ErrUnavailable) {
		s.operate = &lane.Hold{Workspace: s.ws, Lane: lane.Operate, Token: s.token}
	}
	return err
}

// start queues the rows of a turn: its thread, its execution, and a kick by which it
// goes on if it is cut off.
func (s *turn) start(ctx context.Context, tx lane.Tx) error {
	if s.started {
		return nil
	}
	if s.fresh {
		s.Threads.OpenIn(tx.Later(), s.Thread, Channel, s.Thread)
	}
	if err := s.Runs.Start(tx, s.exec); err != nil {
		return err
	}
	s.Outbox.Enqueue(ctx, tx.Later(), outbox.Row{
		Kind: outbox.Kick, Topic: Topic, Key: kickOf(s.exec.ID), Payload: encode(goesOn{s.exec.ID}), MaxAttempts: maxAttempts,
		Delay: lookAfter, Trace: s.exec.Trace, Execution: s.exec.ID,
	})
	return nil
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
func (s *turn) queue(ctx context.Context, ahead int) error {
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
	if err := s.write(ctx, s.hold, s.start); err != nil {
		return err
	}
	s.running()
	return nil
}

// write runs fn, which writes the turn down, under what is held. Where the answer is lost
// it does so again: the proof of the hold waits for what may be under way still, and if
// that has written the turn down, its ids, which nobody else has, are taken.
func (s *turn) write(ctx context.Context, held lane.Held, fn func(context.Context, lane.Tx) error) error {
	err := s.Lanes.InHold(ctx, held, fn)
	if !errors.Is(err, db.ErrUncertain) {
		return err
	}
	if err = s.Lanes.InHold(ctx, held, fn); errors.Is(err, db.ErrUnique) {
		return nil
	}
	return err
}

// begin writes down what the person said.
func (s *turn) begin(ctx context.Context) error {
	err := s.write(ctx, s.holds(), func(ctx context.Context, tx lane.Tx) error {
		if err := s.start(ctx, tx); err != nil {
			return err
		}
		return s.say(ctx, tx, s.Thread, thread.Spoken{Role: thread.User, Body: s.Message, Execution: s.exec.ID,
			Key: s.exec.ID + ":asked", First: !s.resumed})
	})
	if err != nil {
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

func (s *turn) holds() lane.Holds { return lane.Holds{s.hold, s.operate} }

// leave gives lane operate back, unless the turn's last transaction did. One that was
// asked for, and perhaps granted, without an answer is given back by its token.
func (s *turn) leave(ctx context.Context) {
	if s.operate == nil || s.operate.Ended() {
		return
	}
	last, cancel := lastly(ctx)
	defer cancel()
	if err := s.Lanes.Drop(last, s.operate); err != nil && !errors.Is(err, lane.ErrLost) {
		s.Log.WarnContext(last, "lane operate is left to expire", "error", err)
	}
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
		last, cancel := lastly(ctx)
		defer cancel()
		var b db.Batch
		s.GoOn(&b, s.exec.ID)
		if err := s.DB.Do(last, s.ws, &b); err != nil {
			s.Log.WarnContext(ctx, "a turn that was cut off is left to its row in the outbox", "error", err)
		}
	}
	r := replyOf(s.stands(ctx))
	r.NotUndone = s.stays
	return r, nil
}

// stands is the turn's execution as it is now.
func (s *turn) stands(ctx context.Context) execution.Execution {
	if s.ended != nil {
		return *s.ended
	}
	last, cancel := lastly(ctx)
	defer cancel()
	e, err := s.Runs.Get(last, s.ws, s.exec.ID)
	if err != nil {
		s.Log.ErrorContext(ctx, "how a turn stands can't be read", "error", err)
		e = s.exec
		e.Status = execution.Running
	}
	return e
}

// lastly is a context for the last reads and writes, which outlives the work's. It
// has no deadline, by which a hold that is proven in it would be shortened.
func lastly(ctx context.Context) (context.Context, context.CancelFunc) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(lastWrites, cancel)
	return last, func() { timer.Stop(); cancel() }
}

// stopped is the reason of a turn that was taken another's place of.
func stopped(mode Multitask, by string) string { return fmt.Sprintf("%s by %s", mode, by) }
