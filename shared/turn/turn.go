package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Multitask says what a message does that comes while a turn runs.
type Multitask string

// The ways of a message that comes while a turn runs.
const (
	Enqueue   Multitask = "enqueue"   // it waits for its turn, behind those that came before it
	Reject    Multitask = "reject"    // it is refused with a [lane.BusyError]
	Interrupt Multitask = "interrupt" // the running turn is cancelled, and what it has done is kept
	Rollback  Multitask = "rollback"  // the running turn is cancelled, and its messages and records go
	Steer     Multitask = "steer"     // it is put into the running turn before its next step, else it waits
	Collect   Multitask = "collect"   // it is answered together with those that come shortly after it
)

// Kind is a kind of conversation: what differs from surface to surface.
type Kind struct {
	Surface trace.Surface // of its executions; the agent has the skills of this surface
	Name    string        // of the surface, in holders and in the activity log
	Agent   string
	Channel string // of its threads
	// Lane is the lane that lets one turn run at a time; empty: each turn names its own. Its
	// name must sort behind execution:, in the order in which lanes are locked.
	Lane   lane.Name
	Prompt string // the rules of the surface, with which the system prompt begins
	// Persona adds to the prompt, and says which model is asked and which skills are offered.
	Persona string
	// Trust is whose words the messages are; empty: the operator's.
	Trust execution.Trust
	// Multitask are the strategies that a message may ask for.
	Multitask []Multitask
	// Deliverable says whether a text reaches an address by a channel. Answers leave by the channel of
	// their thread where it does; nil: they stay in the thread.
	Deliverable func(channel, address, body string) error
	// Told returns what the person is told of how a turn stands, and the thread keeps of it; nil: the
	// answer with the reason why it is none.
	Told func(Reply) string
	// LocksThread says that a turn has the lock of its thread while it works: nobody else speaks in it.
	LocksThread bool
	// Guarded says that strangers are told what the agent says: an output check sees it first.
	Guarded bool
	// AnswerTokens bounds one answer of the model; nil: 4,096 tokens.
	AnswerTokens func(workspace.Settings) int
	// ThreadTokens bounds what the turns of one thread use together; nil: nothing does. The call of a
	// model by which it is reached is the last.
	ThreadTokens func(workspace.Settings) int64
}

// kind returns the kind of conversation of a surface.
func (r *Runner) kind(surface trace.Surface) (Kind, bool) {
	at := slices.IndexFunc(r.Kinds, func(k Kind) bool { return k.Surface == surface })
	if at < 0 {
		return Kind{}, false
	}
	return r.Kinds[at], true
}

// Turn is one message of a person.
type Turn struct {
	ID      string        // of its execution, new to the workspace; empty: a new one
	Surface trace.Surface // names the kind of conversation
	Lane    lane.Name     // in which one turn runs at a time, where the kind has no lane of its own
	Message string
	Thread  string // empty: that of Address
	// Address is whose thread it is, where Thread is empty: the thread of that address is found, or
	// opened. Empty: a new thread, whose address is its id.
	Address string
	// Persona adds to the prompt; empty: the kind's.
	Persona string
	// Before is what the caller says was spoken before Message; nil: what the thread has. The model
	// is told these, and those that the thread does not have are stored before Message.
	Before []Said
	// Multitask is what to do about a running turn; empty: enqueue.
	Multitask Multitask
	// AnswerTokens lowers the bound of one answer of the model; 0: the kind's bound applies.
	AnswerTokens int
	By           string // who talks
	// Limited are those who may use the skills that need no approval, and interrupt no
	// turn but their own.
	Limited bool
	// Begun is told once the turn is written down, and can no longer be lost. It may
	// be nil, as may Tell, which is told what happens as it happens.
	Begun func(execution, thread string)
	Tell  func(Event)
}

// Said is a message of a conversation, as a caller tells it.
type Said struct {
	Role thread.Role `json:"role"`
	Body string      `json:"body"`
}

var (
	// ErrNoThread says that there is no such conversation with the agent.
	ErrNoThread = errors.New("there is no such thread")
	// ErrMultitask says that conversations of this kind don't know the strategy.
	ErrMultitask = errors.New("the strategy is not available in this conversation")
	// ErrNoPersona says that there is no such persona, or that it does not serve the surface.
	ErrNoPersona = errors.New("no persona of that name serves this conversation")
	// ErrSpent says that the tokens of the conversation are used up.
	ErrSpent = errors.New(reason.UsedUp)
	// ErrNotYours says that the running turn is somebody else's.
	ErrNotYours = errors.New("the running turn is another person's: only an admin may end it")
	// errLater says that the time was up before the turn came to its turn.
	errLater = &work.ParkedError{Why: "it waits for the turns before it"}
)

// talking is the task of an execution that is a turn.
const talking = "turn"

// asked is the input of such an execution.
type asked struct {
	Task    string    `json:"task"`
	Lane    lane.Name `json:"lane"`
	Thread  string    `json:"thread_id"`
	Message string    `json:"message"`
	By      string    `json:"by"`
	Limited bool      `json:"limited,omitempty"`
	// Multitask is kept where others may put the message into their turn.
	Multitask Multitask `json:"multitask,omitempty"`
	Before    []Said    `json:"before,omitzero"`
	// AnswerTokens lowers the bound of one answer.
	AnswerTokens int `json:"answer_tokens,omitzero"`
}

// asks is the input of a turn of a kind.
func (k Kind) asks(t Turn) asked {
	return asked{
		Task: talking, Lane: cmp.Or(k.Lane, t.Lane), Thread: t.Thread, Message: t.Message, By: t.By, Limited: t.Limited, Before: t.Before,
		AnswerTokens: t.AnswerTokens,
	}
}

// askedOf returns what a turn was asked; false: the execution is no turn.
func (r *Runner) askedOf(e execution.Execution) (a asked, ok bool) {
	_, ok = r.kind(e.Surface)
	err := json.Unmarshal(e.Input, &a)
	a.Lane = cmp.Or(a.Lane, lane.Operate) // it began before turns had lanes of their own
	return a, ok && err == nil && a.Task == talking
}

// line is the line in which the turn stands.
func (a asked) line() execution.Line {
	return execution.Line{Lane: a.Lane, Task: talking, Topic: Topic}
}

// turn is a turn on its way.
type turn struct {
	*Runner
	asked
	kind      Kind
	ws        db.Workspace
	exec      execution.Execution
	fresh     bool                   // its thread is not there yet
	started   bool                   // its execution is
	resumed   bool                   // it was begun before
	ended     *[]execution.Execution // as its last transaction has left it
	hold      *lane.Hold             // of the execution
	lane      *lane.Hold             // of the conversation
	worked    time.Time              // since when
	came      time.Time              // when its message came
	multitask Multitask
	stays     []Effect // of the turn that it took the place of
	begun     func(execution, thread string)
	also      func(context.Context, *db.Batch) // what is written with its execution
	tell      teller
}

// Talk has one turn with the agent: it takes the lane of the conversation, writes the
// message down, works, and writes the answer down. What was written is not lost: a turn that
// is cut off goes on when its row in the outbox is due. The context should not end because
// whoever asked has left. Errors: [ErrNoThread], [ErrNoPersona], [ErrMultitask], [ErrSpent],
// [ErrNotYours], [ErrLine], a [*lane.BusyError], a [*problem.InvalidError], and failures of the database.
func (r *Runner) Talk(ctx context.Context, ws db.Workspace, t Turn) (Reply, error) {
	kind, ok := r.kind(t.Surface)
	if !ok {
		return Reply{}, fmt.Errorf("surface %s has no conversations", t.Surface)
	}
	id, _ := trace.From(ctx)
	s := &turn{
		Runner: r, kind: kind, came: r.Reason.Clock(), ws: ws, multitask: cmp.Or(t.Multitask, Enqueue), begun: t.Begun, tell: teller{emit: t.Tell},
		asked: kind.asks(t),
	}
	if !slices.Contains(kind.Multitask, s.multitask) {
		return Reply{}, ErrMultitask
	}
	if s.multitask == Steer || s.multitask == Collect {
		s.asked.Multitask = s.multitask
	}
	if err := s.place(ctx, t); err != nil {
		return Reply{}, err
	}
	s.exec = execution.Execution{
		ID: cmp.Or(t.ID, r.IDs()), Agent: kind.Agent, Surface: kind.Surface, Trace: id, Attempt: 1, Input: encode(s.asked), Persona: cmp.Or(t.Persona, kind.Persona),
	}
	s.exec.Subject = lane.Execution(s.exec.ID)
	ctx, cancel := lane.WithLastWrites(trace.WithExecution(ctx, s.exec.ID))
	defer cancel()
	unit := s.unit()
	unit.Fresh = true
	unit.Enter = func(ctx context.Context, e *work.Entry) error { return s.enter(ctx, e, s.stand) }
	_, err := r.do(ctx, ws, kind.Name, s.exec, unit)
	s.tell.restart() // what is not recorded by now is no answer
	return s.reply(ctx, err)
}

// unit is the turn as a unit of work.
func (s *turn) unit() work.Unit {
	return work.Unit{Name: "turn", Kick: KickFor(s.exec, lookAfter), Begin: s.begin, Act: s.work, End: s.end}
}

// enter takes the lane of the conversation, in the way of take.
func (s *turn) enter(ctx context.Context, e *work.Entry, take func(context.Context, *work.Entry) error) error {
	s.hold = e.Hold
	err := take(ctx, e)
	if s.lane != nil {
		e.Take(s.lane)
	}
	return err
}

// begin writes down the turn: its thread, its execution, and a kick by which it goes on if
// it is cut off; and, once it has its lane, what the person said.
func (s *turn) begin(ctx context.Context, st *work.Start) error {
	switch {
	case s.resumed:
		if err := st.Resume(ctx, st.Open[0]); err != nil {
			return err
		}
	case !st.Begun:
		if s.fresh {
			s.Threads.OpenIn(st.Later(), s.Thread, s.kind.Channel, s.Thread)
		}
		if err := st.New(ctx, s.exec); err != nil {
			return err
		}
		if s.also != nil {
			s.also(ctx, st.Later())
		}
	}
	if s.lane == nil { // it stands in line
		return nil
	}
	if _, err := s.sayBefore(ctx, st.Tx, s.asked, s.exec.ID); err != nil {
		return err
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
	settings, err := s.Settings(ctx, s.ws)
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
