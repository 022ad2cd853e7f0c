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

// Multitask says what happens to a message that arrives while a turn runs.
type Multitask string

// The strategies for a message that arrives while a turn runs.
const (
	Enqueue   Multitask = "enqueue"   // it waits in line after earlier messages
	Reject    Multitask = "reject"    // it is refused with a [lane.BusyError]
	Interrupt Multitask = "interrupt" // the running turn is cancelled, and its effects remain
	Rollback  Multitask = "rollback"  // the running turn is cancelled, and its messages and records are undone
	Steer     Multitask = "steer"     // it joins the running turn before that turn's next step, or waits
	Collect   Multitask = "collect"   // it is answered together with messages that arrive shortly after it
)

// Kind is a kind of conversation. It holds what differs between surfaces.
type Kind struct {
	Surface trace.Surface // of its executions; the agent has the skills of this surface
	Name    string        // name of the surface, in holders and in the activity log
	Agent   string
	Channel string // of its threads
	// Lane is the lane under which one turn runs at a time; empty: each turn names its own. Its
	// name must sort after "execution:", because lanes are locked in the order of their names.
	Lane   lane.Name
	Prompt string // rules of the surface, the beginning of the system prompt
	// Persona extends the prompt, and selects the model and the skills.
	Persona string
	// Trust is the trust of the messages; empty: trusted.
	Trust execution.Trust
	// Multitask lists the strategies that a message may ask for.
	Multitask []Multitask
	// Deliverable says whether a text reaches an address by a channel. Answers leave by the channel of
	// their thread where it does; nil: they stay in the thread.
	Deliverable func(channel, address, body string) error
	// Describe returns the text about the state of a turn that the person sees and the thread stores;
	// nil: the answer, or the reason why there is none.
	Describe func(Reply) string
	// LocksThread says that a turn has the lock of its thread while it works: nobody else speaks in it.
	LocksThread bool
	// Guarded says that the agent's answers reach strangers: an output check sees each answer first.
	Guarded bool
	// Waits says that nobody waits for the answer: a turn that the model, a budget or a kill switch stops is tried
	// again until it can go on. Else it fails.
	Waits bool
	// AnswerTokens is the longest answer of the model; nil: 4,096 tokens.
	AnswerTokens func(workspace.Settings) int
	// ThreadTokens limits the tokens that the turns of one thread use together within 24 hours; nil: no
	// limit. The model call that reaches the limit is the last one.
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
	Lane    lane.Name     // lane under which one turn runs at a time, if the kind has no lane
	Message string
	Thread  string // empty: the thread of Address
	// Address is used if Thread is empty: the turn uses the thread of this address and opens it if
	// necessary. If Address is empty too, the turn opens a new thread whose address is its id.
	Address string
	// Opener is kept as [OpenedBy] in a thread that the turn opens, and the turn has no other threads
	// than those; empty: nothing is kept, and the turn may have any thread.
	Opener string
	// Persona replaces the kind's persona; empty: the kind's.
	Persona string
	// Before lists the earlier messages as the caller names them; nil: those of the thread. The
	// model gets these messages, and those that the thread lacks are stored before Message.
	Before []Said
	// Leading is how many of Before, from the first, are instructions. The model gets them first, also where its window has
	// no room for all messages.
	Leading int
	// Adds says that the model gets the messages of the thread too, and of Before those that are not among them.
	Adds bool
	// After is the execution whose answer the message follows, for [Runner.AfterOf]; empty: the caller
	// named none.
	After string
	// Multitask is the strategy for a running turn; empty: enqueue.
	Multitask Multitask
	// AnswerTokens lowers the kind's longest answer; 0: no change.
	AnswerTokens int
	By           string // the person who talks
	// Limited restricts the person to skills that need no approval, and to interrupting turns of
	// their own.
	Limited bool
	// Begun is called when the turn is stored and can no longer be lost. Tell is called with each
	// event as it happens. Both may be nil.
	Begun func(execution, thread string)
	Tell  func(Event)
}

// OpenedBy is the name of the opener in a thread's metadata.
const OpenedBy = "opened_by"

// Said is a message of a conversation, as a caller names it.
type Said struct {
	Role thread.Role `json:"role"`
	Body string      `json:"body"`
}

var (
	// ErrNoThread says that there is no such conversation with the agent.
	ErrNoThread = errors.New("there is no such thread")
	// ErrOpener says that another opened the thread of the address.
	ErrOpener = errors.New("another opened the thread of this address")
	// ErrMultitask says that conversations of this kind do not support the strategy.
	ErrMultitask = errors.New("the strategy is not available in this conversation")
	// ErrNoPersona says that there is no such persona, or that it does not serve the surface.
	ErrNoPersona = errors.New("no persona of that name serves this conversation")
	// ErrSpent says that the tokens of the conversation are used up. What a turn has used is free again
	// 24 hours after the turn began.
	ErrSpent = errors.New(reason.UsedUp)
	// ErrBudget says that a budget of the workspace or of the agent has too little left for an answer, where
	// threads have a bound.
	ErrBudget = errors.New("a budget is used up")
	// ErrInstructions says that the instructions leave the message no room in the model's window.
	ErrInstructions = errors.New("the instructions are too long for the model's context window")
	// ErrNotYours says that the running turn belongs to another person.
	ErrNotYours = errors.New("the running turn is another person's: only an admin may end it")
	// errLater says that the time was up before the turn got its lane.
	errLater = &work.ParkedError{Why: "it waits for the turns before it"}
)

// UnpricedError names a model without a price, where a budget of the workspace or of the agent is capped in money and
// threads have a bound. No answer could be paid for.
type UnpricedError struct{ Model string }

func (e *UnpricedError) Error() string {
	return "money is capped, and the model " + e.Model + " has no price"
}

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
	// Multitask is stored if another turn may take over the message.
	Multitask Multitask `json:"multitask,omitempty"`
	Before    []Said    `json:"before,omitzero"`
	Leading   int       `json:"leading,omitempty"`
	Adds      bool      `json:"adds,omitempty"`
	// After is the execution whose answer the message follows, if the caller named one.
	After string `json:"after,omitempty"`
	// AnswerTokens lowers the bound of one answer.
	AnswerTokens int `json:"answer_tokens,omitzero"`
}

// ByHand is the input of an execution that is one call of a skill by hand.
type ByHand struct {
	Skill string `json:"skill"`
}

// byHand reports whether an execution is a call by hand.
func byHand(e execution.Execution) bool {
	var is struct {
		ByHand
		Task string `json:"task"`
	}
	return json.Unmarshal(e.Input, &is) == nil && is.Skill != "" && is.Task == ""
}

// asks returns the input of a turn.
func (k Kind) asks(t Turn) asked {
	return asked{
		Task: talking, Lane: cmp.Or(k.Lane, t.Lane), Thread: t.Thread, Message: t.Message, By: t.By, Limited: t.Limited, Before: t.Before,
		Leading: t.Leading, Adds: t.Adds, AnswerTokens: t.AnswerTokens, After: t.After,
	}
}

// askedOf returns the input of a turn. ok is false if the execution is not a turn.
func (r *Runner) askedOf(e execution.Execution) (a asked, ok bool) {
	_, ok = r.kind(e.Surface)
	err := json.Unmarshal(e.Input, &a)
	a.Lane = cmp.Or(a.Lane, lane.Operate) // it began before turns had lanes of their own
	return a, ok && err == nil && a.Task == talking
}

// line returns the line in which the turn waits.
func (k Kind) line(of lane.Name) execution.Line {
	l := LineOf(of)
	l.Waits = k.Waits
	return l
}

// LineOf returns the line of the turns that need a lane.
func LineOf(of lane.Name) execution.Line {
	return execution.Line{Lane: of, Task: talking, Topic: Topic}
}

func (s *turn) line() execution.Line { return s.kind.line(s.Lane) }

// turn is a turn in progress.
type turn struct {
	*Runner
	asked
	kind      Kind
	ws        db.Workspace
	exec      execution.Execution
	fresh     bool                   // its thread does not exist yet
	places    int                    // turns that may wait in line; 0: this one has not asked
	started   bool                   // its execution exists
	resumed   bool                   // it began before
	ended     *[]execution.Execution // after its last transaction
	hold      *lane.Hold             // on the execution's lane
	lane      *lane.Hold             // on the conversation's lane
	worked    time.Time              // beginning of the work
	came      time.Time              // arrival of its message
	multitask Multitask
	stays     []Effect // effects of the turn that it replaced
	// others says whether turns in the line of this one are open, as was read with its thread; nil: it does
	// not wait for others. asking is the request for the conversation's lane, sent with that for the
	// execution's.
	others *bool
	asking asking
	// taken says whether the first transaction got the lock of the thread; nil: it did not try. read
	// returns what that transaction, or a later one, has read; nil: nothing was read.
	taken func(context.Context) bool
	read  func(context.Context) (ground, error)
	begun func(execution, thread string)
	also  func(context.Context, *db.Batch) // more writes in the transaction that stores its execution
	tell  teller
}

// Talk has one turn with the agent: it takes the lane of the conversation, writes the
// message down, works, and writes the answer down. What was written is not lost: a turn that
// is cut off goes on when its row in the outbox is due. The context should not end because
// whoever asked has left. Errors: [ErrNoThread], [ErrOpener], [ErrNoPersona], [ErrMultitask],
// [ErrSpent], [ErrBudget], an [*UnpricedError], [ErrInstructions], [ErrNotYours], [ErrLine], a [*lane.BusyError],
// a [*problem.InvalidError], and failures of the database.
func (r *Runner) Talk(ctx context.Context, ws db.Workspace, t Turn) (Reply, error) {
	kind, ok := r.kind(t.Surface)
	if !ok {
		return Reply{}, fmt.Errorf("surface %s has no conversations", t.Surface)
	}
	id, _ := trace.From(ctx)
	s := &turn{
		Runner: r, kind: kind, came: r.Reason.Clock(), ws: ws, multitask: cmp.Or(t.Multitask, Enqueue), begun: t.Begun,
		tell:  teller{emit: t.Tell},
		asked: kind.asks(t),
	}
	if !slices.Contains(kind.Multitask, s.multitask) {
		return Reply{}, ErrMultitask
	}
	if s.multitask == Steer || s.multitask == Collect {
		s.asked.Multitask = s.multitask
	}
	s.exec.ID = cmp.Or(t.ID, r.IDs())
	if err := s.findThread(ctx, t); err != nil {
		return Reply{}, err
	}
	s.exec = execution.Execution{
		ID: s.exec.ID, Agent: kind.Agent, Surface: kind.Surface, Trace: id, Attempt: 1, Input: encode(s.asked),
		Persona: cmp.Or(t.Persona, kind.Persona),
	}
	s.exec.Subject = lane.Execution(s.exec.ID)
	ctx, cancel := lane.WithLastWrites(trace.WithExecution(ctx, s.exec.ID))
	defer cancel()
	unit := s.unit()
	unit.Fresh = true
	unit.Enter = func(ctx context.Context, e *work.Entry) error { return s.enter(ctx, e, s.stand) }
	if s.others != nil && !*s.others {
		unit.Look = s.askBeside(ctx)
		defer s.forsake(ctx)
	}
	_, err := r.do(ctx, ws, kind.Name, s.exec, unit)
	s.tell.restart() // withdraws an answer that is not recorded
	return s.reply(ctx, err)
}

// unit returns the turn as a unit of work.
func (s *turn) unit() work.Unit {
	return work.Unit{Name: "turn", Kick: KickFor(s.exec, LookAfter), Begin: s.begin, Act: s.work, End: s.end}
}

// enter acquires the conversation's lane by calling take.
func (s *turn) enter(ctx context.Context, e *work.Entry, take func(context.Context, *work.Entry) error) error {
	s.hold = e.Hold
	err := take(ctx, e)
	if s.lane != nil {
		e.Take(s.lane)
	}
	return err
}

// begin stores the turn: its thread, its execution, and a kick that continues it if it is cut off.
// Once the turn has its lane, begin also stores the person's message.
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
		if s.places > 0 {
			if err := s.takePlace(ctx, st.Tx); err != nil {
				return err
			}
		}
		if err := st.New(ctx, s.exec); err != nil {
			return err
		}
		if s.also != nil {
			s.also(ctx, st.Later())
		}
	}
	if s.lane == nil { // it waits in line
		return nil
	}
	if _, err := s.sayBefore(ctx, st.Tx, s.asked, s.exec.ID); err != nil {
		return err
	}
	err := s.say(ctx, st.Tx, s.Thread, thread.Spoken{Role: thread.User, Body: s.Message, Execution: s.exec.ID,
		Key: s.exec.ID + ":asked", First: !s.resumed})
	if err == nil && s.kind.LocksThread && !s.resumed {
		s.taken, s.read = s.Threads.TakeFree(st.Later(), s.Thread, s.exec.ID), s.readGround(st.Later(), true)
	}
	return err
}

// LookAfter is the delay before the outbox row of an execution that is worked on is due for the first time.
// The sender then checks by the execution's lane whether a process works on it, and checks again later if so.
const LookAfter = 30 * time.Second

// maxAttempts is how often the outbox tries to continue a turn at short intervals, over more than an hour.
const maxAttempts = 20

// kickOf returns the key of the row that continues an execution.
func kickOf(execution string) string { return "execution:" + execution }

// queue stores the turn while it waits in line after ahead others. It returns [ErrLine] if the line
// is full.
func (s *turn) queue(ctx context.Context, e *work.Entry, ahead int) error {
	if s.started {
		return nil
	}
	settings, err := s.Settings(ctx, s.ws)
	if err != nil {
		return err
	}
	if s.places = settings.SessionQueue; ahead > s.places { // one of them works
		return ErrLine
	}
	if err := e.Begin(ctx, s.Lane); err != nil {
		return err
	}
	s.running()
	return nil
}

// takePlace counts the turns ahead once more. The transaction has locked the row of the conversation's lane, so
// that those which come at once don't all get the last place.
func (s *turn) takePlace(ctx context.Context, tx lane.Tx) error {
	if err := tx.Flush(ctx); err != nil {
		return err
	}
	ahead := s.Runs.Ahead(tx.Later(), s.line(), s.exec.ID)
	if err := tx.Flush(ctx); err != nil {
		return err
	}
	if *ahead > s.places {
		return ErrLine
	}
	return nil
}

// say stores a message in a thread, once.
func (s *turn) say(ctx context.Context, tx lane.Tx, to string, m thread.Spoken) error {
	_, _, err := s.Threads.Append(ctx, tx, to, m)
	return err
}

// running records that the turn is stored, and calls begun.
func (s *turn) running() {
	if !s.started && s.begun != nil {
		s.begun(s.exec.ID, s.Thread)
	}
	s.started = true
}
