package operate_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
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

// world is a fresh workspace on one engine, with an agent to talk to that can note
// something down, and pay when a person approves.
type world struct {
	*operate.Operate
	dbtest.Env
	sender *outbox.Sender
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e}
	log := slog.New(trace.NewHandler(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})))
	d := e.DB
	lanes, runs, acts := must(lane.New(d))(t), must(execution.New(d))(t), must(activity.New(d, ids))(t)
	box, workspaces := must(outbox.New(d, ids, mathrand.Float64))(t), must(workspace.New(d))(t)
	threads := must(thread.New(d, runs, box, ids, log))(t)
	parameters := json.RawMessage(`{"type":"object"}`)
	set := must(skill.NewSet(
		skill.Skill{Name: "note", Kind: skill.Builtin, Scope: skill.Internal, Description: "Notes it down.", Parameters: parameters,
			Run: func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
				return map[string]string{"noted": string(c.Arguments)}, nil
			}},
		skill.Skill{Name: "pay", Kind: skill.Builtin, Scope: skill.Internal, Description: "Pays.", Parameters: parameters, RequiresApproval: true,
			Run: func(context.Context, lane.Tx, skill.Call) (any, error) {
				return map[string]string{"receipt": "R-1"}, nil
			}},
	))(t)
	skills := func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) { return set, nil }
	approvals := must(approval.New(approval.Deps{
		DB: d, Workspaces: workspaces, Outbox: box, Activity: acts, Skills: skills, IDs: ids,
		Settled: func(ctx context.Context, b *db.Batch, a approval.Approval) { w.Decided(ctx, b, a) },
	}))(t)
	runner := &reason.Runner{
		Runs: runs, Lanes: lanes, Activity: acts, Approvals: waiting{approvals}, Queues: queue.New(queue.Options{}), Log: log, Clock: time.Now,
		Release: func(ctx context.Context, tx lane.Tx, execution string) error {
			_, err := threads.Release(ctx, tx, execution)
			return err
		},
	}
	w.Operate = &operate.Operate{Runner: &turn.Runner{Kinds: []turn.Kind{operate.Kind()}, Parts: &parts.Parts{
		DB:         d,
		Lanes:      lanes,
		Runs:       runs,
		Activity:   acts,
		Workspaces: workspaces,
		Personas:   must(persona.New(d))(t),
		Threads:    threads,
		Approvals:  approvals,
		Skills:     skills,
		Reason:     runner,
		Worker:     &work.Worker{Lanes: lanes, Runs: runs, Reason: runner, Outbox: box},
		Outbox:     box,
		IDs:        ids,
		Log:        log,
		Instance:   "test",
	}}}
	w.sender = &outbox.Sender{Store: box, Holder: "test", Log: log, Handlers: map[string]outbox.Handler{
		approval.Topic: &approval.Executor{Store: approvals, Lanes: lanes, Instance: "test", Clock: time.Now, Log: log},
		turn.Topic:     w.Operate,
	}}
	return w
}

// waiting keeps calls as app/wire does.
type waiting struct{ *approval.Store }

func (a waiting) Request(ctx context.Context, tx lane.Tx, w reason.Waiting) (string, error) {
	return a.Store.Request(ctx, tx, approval.Approval{
		Skill: w.Skill.Name, SkillID: w.Skill.ID, Arguments: w.Call.Arguments, Why: w.Why, Execution: w.Execution.ID, Call: w.CallID,
		Subject: w.Execution.Subject, Agent: w.Call.Agent, Surface: w.Execution.Surface, Trace: w.Execution.Trace,
	})
}

func (w *world) think(m llm.Model) { w.Reason.Model = m }

// said is a turn of ada's, and its end.
func (w *world) said(t testing.TB, message string) turn.Reply {
	t.Helper()
	ctx := trace.With(t.Context(), traces.New(trace.Operate))
	return must(w.Talk(ctx, w.Workspace, turn.Turn{Message: message, By: "user:ada"}))(t)
}

func (w *world) execution(t testing.TB, id string) execution.Execution {
	t.Helper()
	return must(w.Runs.Get(t.Context(), w.Workspace, id))(t)
}

// mustBeFree fails when a lane of the workspace is held.
func (w *world) mustBeFree(t testing.TB) {
	t.Helper()
	for _, i := range must(w.Lanes.List(t.Context(), w.Workspace, 100))(t) {
		t.Errorf("lane %s is held by %s", i.Lane, i.Holder)
	}
}

// drain sends what is due.
func (w *world) drain(t testing.TB) outbox.Report {
	t.Helper()
	return must(w.sender.Drain(t.Context(), w.Workspace, 20))(t)
}

func (w *world) actions(t testing.TB, name string) []activity.Entry {
	t.Helper()
	return must(w.Activity.List(t.Context(), w.Workspace, activity.Filter{Skill: name, Limit: 50}))(t).Items
}

// dies is an answer in the middle of which the process loses all its lanes: from then on it
// writes nothing.
func (w *world) dies(t testing.TB) llmtest.Writing {
	return func(context.Context, llm.Request, func(string)) (llm.Response, error) {
		open := must(w.Lanes.List(context.Background(), w.Workspace, 10))(t)
		for _, held := range open {
			err := w.Env.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.Lanes.ForceRelease(ctx, tx, held.Lane)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		return llmtest.Written("Never heard."), nil
	}
}
