package operate_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/app/wire/wiretest"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
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

var traces = trace.NewSource(time.Now, rand.Reader)

// world is a fresh workspace on one engine, with an agent to talk to that can note
// something down, and pay when a person approves.
type world struct {
	*operate.Operate
	dbtest.Env
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	all := wiretest.New(t, e.DB, wiretest.Log(t))
	parameters := json.RawMessage(`{"type":"object"}`)
	wiretest.Offer(t, all,
		skill.Skill{Name: "note", Kind: skill.Builtin, Scope: skill.Internal, Description: "Notes it down.", Parameters: parameters,
			Run: func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
				return map[string]string{"noted": string(c.Arguments)}, nil
			}},
		skill.Skill{Name: "pay", Kind: skill.Builtin, Scope: skill.Internal, Description: "Pays.", Parameters: parameters, RequiresApproval: true,
			Run: func(context.Context, lane.Tx, skill.Call) (any, error) {
				return map[string]string{"receipt": "R-1"}, nil
			}},
	)
	return &world{Operate: all.Operate, Env: e}
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
	return must(w.Sender.Drain(t.Context(), w.Workspace, 20))(t)
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
