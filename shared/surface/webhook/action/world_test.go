package action_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/app/wire/wiretest"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/webhook/action"
	"github.com/lanekeeper/lanekeeper/shared/task"
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

// world is a fresh workspace with an agent that can notify somebody outside, note something down,
// and pay when a person approves.
type world struct {
	*action.Runner
	dbtest.Env
	slug string

	mu       sync.Mutex
	notified []skill.Call
	notify   func(skill.Call) error
	answers  []llm.Response
	asked    []llm.Request
	said     []thread.Message // by the channel http
	unsaid   error            // why nothing is said by it
	away     error            // why the model does not answer
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
	all := wiretest.New(t, e.DB, wiretest.Log(t))
	wiretest.Offer(t, all, slices.Concat(must(skill.Skills())(t), must(task.Skills(all.Tasks, all.Secrets))(t), w.skills())...)
	all.Reason.Model = scripted{w}
	turns := all.Operate.Runner
	turns.Kinds = []turn.Kind{action.Kind(w.deliverable)}
	w.Runner = &action.Runner{Parts: all.Parts, Turns: turns, Random: mathrand.Float64}
	w.Sender.Handlers = map[string]outbox.Handler{inbox.Topic: w.Runner, turn.Topic: turns}
	maps.Copy(w.Sender.Handlers, w.Threads.Handlers(spoken{w}))
	made := must(w.Workspaces.List(t.Context(), []db.Workspace{e.Workspace}))(t)
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

func (scripted) Name() string { return "script" }

func (m scripted) Generate(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.asked = append(m.w.asked, r)
	if m.w.away != nil {
		return llm.Response{}, m.w.away
	}
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
	found, _, err := w.Approvals.List(t.Context(), w.Workspace, approval.Filter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (w *world) drain(t testing.TB) {
	t.Helper()
	for range 10 {
		if sent := must(w.Sender.Drain(t.Context(), w.Workspace, 20))(t); sent.Claimed == 0 {
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
