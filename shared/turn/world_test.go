package turn_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/app/wire/wiretest"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

var traces = trace.NewSource(time.Now, rand.Reader)

// world is a new workspace on one engine. Its agent can note something, and can pay after a
// person's approval.
type world struct {
	*turn.Runner
	dbtest.Env
	clock *clock

	knocking chan struct{} // signals a call of knock
	opened   chan struct{} // lets all calls of knock return

	mu    sync.Mutex
	noted []string
	paid  int
	// judged are the arguments of the calls of judge, and verdicts its results in order.
	judged   []string
	verdicts []any
}

// clock is a clock that the test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// talk is the kind of the conversations in these tests.
var talk = turn.Kind{
	Surface: trace.Operate, Name: "operate", Agent: activity.Operator, Channel: "operate", Lane: lane.Operate, Prompt: "You are the agent.",
	Multitask: []turn.Multitask{turn.Enqueue, turn.Reject, turn.Interrupt, turn.Rollback},
}

// Talk runs a turn of that kind.
func (w *world) Talk(ctx context.Context, ws db.Workspace, t turn.Turn) (turn.Reply, error) {
	t.Surface = talk.Surface
	return w.Runner.Talk(ctx, ws, t)
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e, clock: &clock{now: time.Now()}, knocking: make(chan struct{}, 100), opened: make(chan struct{})}
	all := wiretest.New(t, e.DB, wiretest.Log(t))
	builtin := slices.Concat(
		must(objective.Skills(all.Objectives))(t), must(memory.Skills(all.Memories))(t), must(automation.Skills(all.Automations))(t),
		must(thread.Skills(all.Threads, func(_, _, _ string) error { return nil }, "chat"))(t))
	wiretest.Offer(t, all, append(builtin, w.note(), w.pay(), w.knock(), w.judge())...)
	all.Reason.Clock = w.clock.Now
	w.Runner = all.Operate.Runner
	w.Kinds = []turn.Kind{talk}
	return w
}

// another returns the same world in another process, with effects of its own.
func (w *world) another(t testing.TB, m llm.Model) *world {
	t.Helper()
	e := w.Env
	if e.Engine != dbtest.OnSQLite { // one process has the file
		e.DB, e.Skew = e.Open(t, 0)
		e.Skew.Advance(w.Skew.Offset())
	}
	other := newWorld(t, e)
	other.Reason.Model = m
	return other
}

// note returns a skill that writes to the database. It also keeps its texts in the world.
func (w *world) note() skill.Skill {
	return skill.Skill{
		Name: "note", Kind: skill.Builtin, Scope: skill.Internal, Description: "Notes it down.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}`),
		Run: func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.noted = append(w.noted, string(c.Arguments))
			return map[string]string{"noted": string(c.Arguments)}, nil
		},
	}
}

func (w *world) pay() skill.Skill {
	return skill.Skill{
		Name: "pay", Kind: skill.Builtin, Scope: skill.Internal, Description: "Pays.", RequiresApproval: true,
		Parameters: json.RawMessage(`{"type":"object"}`),
		Run: func(context.Context, lane.Tx, skill.Call) (any, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.paid++
			return map[string]string{"receipt": "R-1"}, nil
		},
	}
}

// knock returns a skill with an effect outside, which waits until the test lets it return.
func (w *world) knock() skill.Skill {
	return skill.Skill{
		Name: "knock", Kind: skill.HTTP, Scope: skill.Internal, Description: "Knocks.", Parameters: json.RawMessage(`{"type":"object"}`),
		Do: func(ctx context.Context, _ skill.Call) (any, error) {
			w.knocking <- struct{}{}
			select {
			case <-w.opened:
				return map[string]bool{"open": true}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

// judge returns a skill that checks answers, with the results that the test names.
func (w *world) judge() skill.Skill {
	return skill.Skill{
		Name: "judge", Kind: skill.HTTP, Effect: skill.Read, Scope: skill.Internal, Description: "Judges answers.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"},"messages":{"type":"array"}},"required":["answer","messages"]}`),
		Do: func(_ context.Context, c skill.Call) (any, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.judged = append(w.judged, string(c.Arguments))
			next := w.verdicts[0]
			if w.verdicts = w.verdicts[1:]; len(w.verdicts) == 0 {
				w.verdicts = []any{next}
			}
			if fail, is := next.(func() error); is {
				return nil, fail()
			}
			return next, nil
		},
	}
}

func (w *world) think(m llm.Model) { w.Reason.Model = m }

// said runs a turn of ada and returns its reply.
func (w *world) said(t testing.TB, message turn.Turn) turn.Reply {
	t.Helper()
	r, err := w.say(message)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) say(message turn.Turn) (turn.Reply, error) {
	if message.By == "" {
		message.By = "user:ada"
	}
	ctx := trace.With(context.Background(), traces.New(trace.Operate))
	return w.Talk(ctx, w.Workspace, message)
}

// saying is a turn that runs beside the test.
type saying struct {
	begun chan string // its execution
	ended chan struct{}
	reply turn.Reply
	err   error
}

func (w *world) saying(message turn.Turn) *saying {
	s := &saying{begun: make(chan string, 1), ended: make(chan struct{})}
	message.Begun = func(execution, _ string) { s.begun <- execution }
	go func() {
		defer close(s.ended)
		s.reply, s.err = w.say(message)
	}()
	return s
}

func (s *saying) end(t testing.TB) turn.Reply {
	t.Helper()
	<-s.ended
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.reply
}

// spoken returns a thread as lines of the form "role: body".
func (w *world) spoken(t testing.TB, id string) []string {
	t.Helper()
	var out []string
	for _, l := range must(w.Threads.Lately(t.Context(), w.Workspace, id, 100))(t) {
		out = append(out, string(l.Role)+": "+l.Body)
	}
	return out
}

func (w *world) execution(t testing.TB, id string) execution.Execution {
	t.Helper()
	return must(w.Runs.Get(t.Context(), w.Workspace, id))(t)
}

// mustBeFree fails if a lane of the workspace is held.
func (w *world) mustBeFree(t testing.TB) {
	t.Helper()
	for _, i := range must(w.Lanes.List(t.Context(), w.Workspace, 100))(t) {
		t.Errorf("lane %s is held by %s", i.Lane, i.Holder)
	}
}

// drain sends due rows.
func (w *world) drain(t testing.TB) outbox.Report {
	t.Helper()
	return must(w.Sender.Drain(t.Context(), w.Workspace, 20))(t)
}

func (w *world) actions(t testing.TB, name string) []activity.Entry {
	t.Helper()
	return must(w.Activity.List(t.Context(), w.Workspace, activity.Filter{Skill: name, Limit: 50}))(t).Items
}
