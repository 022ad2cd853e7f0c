package worker_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/app/wire/wiretest"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
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

// world is a fresh workspace with the whole product over it, an agent that the built-in worker is
// started for, and a scripted model. Invocations of the worker run when the test says so.
type world struct {
	*wire.Surfaces
	dbtest.Env
	agentID string

	mu      sync.Mutex
	invoked []worker.Tick
	noted   []string
	paid    int
	now     time.Time // of the reasoner's clock
	model   func(ctx context.Context, r llm.Request) (llm.Response, error)
	asked   []llm.Request
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e, now: time.Now()}
	w.Surfaces = wiretest.New(t, e.DB, wiretest.Log(t))
	w.Works(func(_ context.Context, tick worker.Tick) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.invoked = append(w.invoked, tick)
		return nil
	})
	w.Reason.Model = scripted{w}
	w.Reason.Clock = w.clock
	wiretest.Offer(t, w.Surfaces, slices.Concat(w.skills(), must(task.Skills(w.Tasks, w.Secrets))(t))...)
	w.agentID = w.IDs()
	w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		_, _, err := w.Agents.Register(ctx, tx, agent.Agent{ID: w.agentID, Name: "worker", Spawner: agent.SpawnBuiltin, CoordinatorEnabled: true, CreatedBy: "test"})
		return err
	})
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) tx(t testing.TB, fn func(ctx context.Context, tx *db.Tx) error) {
	t.Helper()
	if err := w.Env.DB.Tx(t.Context(), w.Workspace, fn); err != nil {
		t.Fatal(err)
	}
}

func (w *world) skills() []skill.Skill {
	object := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"additionalProperties":false}`)
	return []skill.Skill{
		{Name: "note", Kind: skill.Builtin, Scope: skill.Internal, Effect: skill.Write, Description: "Notes.", Parameters: object,
			Run: func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
				var args struct{ Text string }
				err := json.Unmarshal(c.Arguments, &args)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.noted = append(w.noted, args.Text)
				return "noted", err
			}},
		{Name: "pay", Kind: skill.Builtin, Scope: skill.Internal, Effect: skill.Write, Description: "Pays.", Parameters: object, RequiresApproval: true,
			Run: func(context.Context, lane.Tx, skill.Call) (any, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.paid++
				return "paid", nil
			}},
	}
}

// notes returns what was noted so far.
func (w *world) notes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.noted)
}

type scripted struct{ w *world }

func (scripted) Name() string { return "script" }

func (m scripted) Generate(ctx context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	m.w.mu.Lock()
	m.w.asked = append(m.w.asked, r)
	answer := m.w.model
	m.w.mu.Unlock()
	return answer(ctx, r)
}

func says(text string, calls ...llm.ToolCall) llm.Response {
	stop := llm.StopEndTurn
	if len(calls) > 0 {
		stop = llm.StopToolUse
	}
	return llm.Response{Message: llm.Message{Role: llm.RoleAssistant, Text: text, Calls: calls}, StopReason: stop, Model: "script",
		Usage: llm.Usage{PromptTokens: 10, CompletionTokens: 5}}
}

// results counts the results of calls in a request.
func results(r llm.Request) (n int) {
	for _, m := range r.Messages {
		n += len(m.Results)
	}
	return n
}

// steps is a model that makes n calls of note, one in each step, and then answers. Each step takes that
// long by the reasoner's clock.
func (w *world) steps(n int, each time.Duration) {
	w.answers(func(_ context.Context, r llm.Request) (llm.Response, error) {
		w.mu.Lock()
		w.now = w.now.Add(each)
		w.mu.Unlock()
		if done := results(r); done < n {
			text := "step " + string(rune('a'+done%26))
			return says("", llm.ToolCall{ID: text, Name: "note", Arguments: llm.Arguments(`{"text":"` + text + `"}`)}), nil
		}
		return says("All is noted."), nil
	})
}

func (w *world) answers(fn func(ctx context.Context, r llm.Request) (llm.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.model = fn
}

func (w *world) create(t testing.TB, d task.Task) string {
	t.Helper()
	var is task.Task
	d.CreatedBy, d.Priority, d.BackoffSeconds = "user:ada", 5, 1
	ctx := trace.With(t.Context(), w.Traces.New(trace.Operate))
	err := w.Env.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		is, err = w.Tasks.Create(ctx, tx, d)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return is.ID
}

func (w *world) get(t testing.TB, id string) task.Task {
	t.Helper()
	return must(w.Tasks.Get(t.Context(), w.Workspace, id))(t)
}

// cycle runs one cycle of the coordinator, and sends what is due.
func (w *world) cycle(t testing.TB) {
	t.Helper()
	must(w.Cycles.Cycle(t.Context(), w.Workspace, "test"))(t)
	w.drain(t)
}

func (w *world) drain(t testing.TB) {
	t.Helper()
	must(w.Sender.Drain(t.Context(), w.Workspace, 100))(t)
}

// next returns the invocations that were asked for since the last call, each once.
func (w *world) next() (out []worker.Tick) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tick := range w.invoked {
		if !slices.Contains(out, tick) {
			out = append(out, tick)
		}
	}
	w.invoked = nil
	return out
}

// run runs the invocations that were asked for since the last call.
func (w *world) run(t testing.TB) {
	t.Helper()
	for _, tick := range w.next() {
		must(w.Work.Run(t.Context(), tick))(t)
	}
}

// open returns the unfinished executions of a task.
func (w *world) open(t testing.TB, id string) []execution.Execution {
	t.Helper()
	var b db.Batch
	found := w.Runs.Unfinished(&b, lane.Task(id))
	if err := w.Env.DB.Read(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return *found
}

// ofTrace returns the executions of the trace in which a task was created.
func (w *world) executions(t testing.TB, id string) []execution.Execution {
	t.Helper()
	origin := must(w.Tasks.Origin(t.Context(), w.Workspace, id))(t)
	var b db.Batch
	found := w.Runs.OfTrace(&b, origin)
	if err := w.Env.DB.Read(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return *found
}

func (w *world) mustBeFree(t testing.TB, id string) {
	t.Helper()
	if held := must(w.Lanes.Peek(t.Context(), w.Workspace, lane.Task(id)))(t); held.Held() {
		t.Errorf("the lane of task %s is held by %s", id, held.Holder)
	}
}
