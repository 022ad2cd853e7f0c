package action_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/webhook/action"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/work"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// the test servers live as long as the process, and one goroutine each awaits their end
		goleak.IgnoreAnyFunction("github.com/lanekeeper/lanekeeper/infra/rig/servers.spawn.func1"))
}

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

// world is a fresh workspace with an agent that can notify somebody outside, note something down,
// and pay when a person approves.
type world struct {
	*action.Runner
	dbtest.Env
	sender    *outbox.Sender
	runs      *execution.Store
	approvals *approval.Store
	slug      string

	mu       sync.Mutex
	notified []skill.Call
	notify   func(skill.Call) error
	answers  []llm.Response
	asked    []llm.Request
	said     []thread.Message // by the channel http
	unsaid   error            // why nothing is said by it
}

// deliverable takes addresses of the channel http.
func (w *world) deliverable(channel, _, _ string) error {
	if channel != "http" {
		return errors.New("no such channel")
	}
	return nil
}

// spoken is the channel http.
type spoken struct{ w *world }

func (spoken) Name() string { return "http" }

func (s spoken) Send(_ context.Context, m thread.Message) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.unsaid == nil {
		s.w.said = append(s.w.said, m)
	}
	return s.w.unsaid
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e}
	d := e.DB
	log := slog.New(outOfHooks{slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}), t})
	lanes, acts := must(lane.New(d))(t), must(activity.New(d, ids))(t)
	w.runs = must(execution.New(d))(t)
	box, workspaces := must(outbox.New(d, ids, mathrand.Float64))(t), must(workspace.New(d))(t)
	automations := must(automation.New(d, ids))(t)
	threads := must(thread.New(d, w.runs, box, ids, log))(t)
	secrets := must(secret.New(d, secret.NewKeyFile(filepath.Join(t.TempDir(), "key"))))(t)
	tasks := must(task.New(d, ids, mathrand.Float64))(t)
	set := must(skill.NewSet(slices.Concat(must(skill.Skills())(t), must(task.Skills(tasks, secrets))(t), w.skills())...))(t)
	skills := func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) { return set, nil }
	all := &parts.Parts{
		DB: d, Lanes: lanes, Runs: w.runs, Activity: acts, Outbox: box, Workspaces: workspaces, Automations: automations, Threads: threads, Secrets: secrets,
		Inbox: must(inbox.New(d, secrets, box, ids))(t), Personas: must(persona.New(d))(t), Tasks: tasks, Skills: skills, Switches: must(halt.New(d, ids))(t),
		IDs: ids, Clock: time.Now, Log: log, Instance: "test",
	}
	turns := &turn.Runner{Parts: all, Kinds: []turn.Kind{action.Kind(w.deliverable)}}
	w.approvals = must(approval.New(approval.Deps{
		DB: d, Workspaces: workspaces, Outbox: box, Activity: acts, Skills: skills, IDs: ids,
		Settled: func(ctx context.Context, b *db.Batch, a approval.Approval) { turns.Decided(ctx, b, a) },
	}))(t)
	all.Approvals = w.approvals
	all.Reason = &reason.Runner{
		Model: w.model(), Runs: w.runs, Lanes: lanes, Activity: acts, Approvals: waiting{w.approvals}, Queues: queue.New(queue.Options{}), Log: log, Clock: time.Now,
		Release: func(ctx context.Context, tx lane.Tx, execution string) error {
			_, err := threads.Release(ctx, tx, execution)
			return err
		},
	}
	all.Worker = &work.Worker{Lanes: lanes, Runs: w.runs, Reason: all.Reason, Outbox: box}
	w.Runner = &action.Runner{Parts: all, Turns: turns, Random: mathrand.Float64}
	w.sender = &outbox.Sender{Store: box, Holder: "test", Log: log, Handlers: map[string]outbox.Handler{inbox.Topic: w.Runner, turn.Topic: turns}}
	maps.Copy(w.sender.Handlers, threads.Handlers(spoken{w}))
	made := must(workspaces.List(t.Context(), []db.Workspace{e.Workspace}))(t)
	w.slug = made[0].Slug
	return w
}

func (w *world) skills() []skill.Skill {
	object := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"additionalProperties":false}`)
	call := func(_ context.Context, c skill.Call) (any, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.notified = append(w.notified, c)
		if w.notify != nil {
			if err := w.notify(c); err != nil {
				return nil, err
			}
		}
		return map[string]bool{"sent": true}, nil
	}
	return []skill.Skill{
		{Name: "notify", Kind: skill.HTTP, Scope: skill.Internal, Effect: skill.Write, Description: "Notifies.", Parameters: object, Keyed: true, Do: call},
		{Name: "shout", Kind: skill.HTTP, Scope: skill.Internal, Effect: skill.Write, Description: "Shouts.", Parameters: object, Do: call},
		{Name: "pay", Kind: skill.Builtin, Scope: skill.Internal, Effect: skill.Write, Description: "Pays.", Parameters: object, RequiresApproval: true,
			Run: func(context.Context, lane.Tx, skill.Call) (any, error) { return "paid", nil }},
	}
}

// calls are what notify and shout were called with so far.
func (w *world) calls() []skill.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notified)
}

func (w *world) failing(fn func(skill.Call) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notify = fn
}

// scripted is the model: it gives the world's answers one after the other.
type scripted struct{ w *world }

func (w *world) model() llm.Model { return scripted{w} }

func (scripted) Name() string { return "script" }

func (m scripted) Generate(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.asked = append(m.w.asked, r)
	if len(m.w.answers) == 0 {
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: "script"}
	}
	next := m.w.answers[0]
	m.w.answers = m.w.answers[1:]
	return next, nil
}

func says(text string, calls ...llm.ToolCall) llm.Response {
	stop := llm.StopEndTurn
	if len(calls) > 0 {
		stop = llm.StopToolUse
	}
	return llm.Response{Message: llm.Message{Role: llm.RoleAssistant, Text: text, Calls: calls}, StopReason: stop, Model: "script",
		Usage: llm.Usage{PromptTokens: 10, CompletionTokens: 5}}
}

// waiting keeps calls as the product does.
type waiting struct{ *approval.Store }

func (a waiting) Request(ctx context.Context, tx lane.Tx, w reason.Waiting) (string, error) {
	return a.Store.Request(ctx, tx, approval.Approval{
		Skill: w.Skill.Name, SkillID: w.Skill.ID, Arguments: w.Call.Arguments, Why: w.Why, Execution: w.Execution.ID, Call: w.CallID,
		Subject: w.Execution.Subject, Agent: w.Call.Agent, Surface: w.Execution.Surface, Trace: w.Execution.Trace,
	})
}

// source makes one with these rules, whose name is given.
func (w *world) source(t testing.TB, name, rules string) inbox.Source {
	t.Helper()
	n := inbox.Source{Name: name, Kind: inbox.GitHub, Enabled: true, CreatedBy: "user:ada"}
	if err := json.Unmarshal([]byte(rules), &n.Rules); err != nil {
		t.Fatal(err)
	}
	draft := must(w.Inbox.Seal(t.Context(), w.Workspace, n, secret.NewValue("a secret of the sender")))(t)
	w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) { n, err = w.Inbox.Create(ctx, tx, draft); return err })
	return n
}

func (w *world) tx(t testing.TB, fn func(ctx context.Context, tx *db.Tx) error) {
	t.Helper()
	if err := w.Env.DB.Tx(t.Context(), w.Workspace, fn); err != nil {
		t.Fatal(err)
	}
}

// receive stores a delivery, as if a request had verified, and answers the id of its row.
func (w *world) receive(t testing.TB, source, id, body string) string {
	t.Helper()
	f := must(w.Inbox.Find(t.Context(), w.slug, source))(t)
	ctx := trace.With(t.Context(), traces.New(trace.Webhook))
	c := inbox.Content{ID: id, Event: "issues.opened", Digest: fmt.Sprintf("%064x", len(body)), Headers: map[string]string{"content-type": "application/json"}}
	return must(w.Inbox.Receive(ctx, f, c, []byte(body)))(t).ID
}

// open are the calls that wait for a person.
func (w *world) open(t testing.TB) []approval.Approval {
	t.Helper()
	found, _, err := w.approvals.List(t.Context(), w.Workspace, approval.Filter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (w *world) drain(t testing.TB) {
	t.Helper()
	for range 10 {
		if sent := must(w.sender.Drain(t.Context(), w.Workspace, 20))(t); sent.Claimed == 0 {
			return
		}
	}
}

func (w *world) delivery(t testing.TB, id string) inbox.Delivery {
	t.Helper()
	return must(w.Inbox.Delivery(t.Context(), w.Workspace, id))(t)
}

// mustBeFree fails when a lane of the workspace is held.
func (w *world) mustBeFree(t testing.TB) {
	t.Helper()
	for _, i := range must(w.Lanes.List(t.Context(), w.Workspace, 100))(t) {
		t.Errorf("lane %s is held by %s", i.Lane, i.Holder)
	}
}

// outOfHooks fails a test in which something is logged by a hook of a unit of work.
type outOfHooks struct {
	slog.Handler
	t testing.TB
}

func (h outOfHooks) Enabled(ctx context.Context, level slog.Level) bool {
	return work.InHook(ctx) || h.Handler.Enabled(ctx, level)
}

func (h outOfHooks) Handle(ctx context.Context, r slog.Record) error {
	if work.InHook(ctx) {
		h.t.Errorf("logged in a hook: %s", r.Message)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
