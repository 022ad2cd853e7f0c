package valkey_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/live/livetest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// world is a workspace with a coordinator and a live view.
type world struct {
	dbtest.Env
	c    *coordinate.Coordinator
	view *view
	live *live.Rebuilder
	far  *live.Database
	q    struct{ Session, Silent, Budget, Used, Settings db.Query }
}

func newWorld(t testing.TB, e dbtest.Env, v *view) *world {
	t.Helper()
	half := func() float64 { return 0.5 }
	ids := func() string { return uuid.Must(uuid.NewV7()).String() }
	log := slog.New(slog.DiscardHandler)
	w := &world{Env: e, view: v, far: livetest.Database(t, e.DB)}
	w.c = &coordinate.Coordinator{DB: e.DB, Traces: trace.NewSource(time.Now, rand.Reader), IDs: ids, Random: half, Log: log, Instance: "test"}
	var errs [6]error
	w.c.Lanes, errs[0] = lane.New(e.DB)
	w.c.Tasks, errs[1] = task.New(e.DB, ids, half)
	w.c.Agents, errs[2] = agent.New(e.DB, ids)
	w.c.Outbox, errs[3] = outbox.New(e.DB, ids, half)
	w.c, errs[4] = w.c.Open()
	events, err := event.New(e.DB)
	errs[5] = err
	must(t, errors.Join(errs[:]...))
	dbtest.Load(t, "testdata", &w.q)
	w.live = &live.Rebuilder{From: w.far, Events: events, To: v.Client, Log: log}
	return w
}

func (w *world) exec(t testing.TB, q db.Query, args ...any) {
	t.Helper()
	_, err := w.DB.Exec(t.Context(), w.Workspace, q, args...)
	must(t, err)
}

// pull registers an agent that pulls.
func (w *world) pull(t testing.TB, name string) string {
	t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	must(t, w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, _, err := w.c.Agents.Register(ctx, tx, agent.Agent{
			ID: id, Name: name, CoordinatorEnabled: true, MaxConcurrentTasks: 2, IntervalSeconds: agent.DefaultInterval,
			StaleSeconds: agent.DefaultStale, Spawner: agent.SpawnPull, CreatedBy: "user:ada",
		})
		return err
	}))
	return id
}

func (w *world) create(t testing.TB, title string, priority int) string {
	t.Helper()
	made, err := w.far.CreateTask(t.Context(), w.Workspace, task.Task{
		Title: title, Priority: priority, MaxRetries: 3, BackoffSeconds: 300, CreatedBy: "user:ada",
	})
	must(t, err)
	return made.ID
}

func (w *world) claim(t testing.TB, id string) (task.Task, bool) {
	t.Helper()
	got, there, err := w.c.Claim(t.Context(), w.Workspace, id, "")
	must(t, err)
	return got, there
}

func (w *world) beat(t testing.TB, id, on string) {
	t.Helper()
	b := agent.Beat{Agent: id, Vitals: agent.Vitals{Task: on}}
	_, err := w.c.Agents.Beat(t.Context(), w.Workspace, b)
	must(t, err)
	w.live.Heard(t.Context(), b)
}

func (w *world) cycle(t testing.TB) coordinate.Report {
	t.Helper()
	r, err := w.c.Cycle(t.Context(), w.Workspace, "test")
	must(t, err)
	w.live.Rebuild(t.Context(), w.Workspace)
	return r
}
