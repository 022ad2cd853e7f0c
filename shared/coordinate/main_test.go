package coordinate_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEngine) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dbtest.Main(m)
}

type statements struct {
	Beat, Unseen, BeatAll, Begin, Status, Overloaded, Doubled, Edge, Circle, Estimated                               db.Query
	Strikes, Told, Data, Rows, Settings, Thread, Open, BeatSeen, Overspent, Disable, Now, Project, Stop, Row, Failed db.Query
	Run, RunIs                                                                                                       db.Query
}

// world is a fresh workspace on one engine with a coordinator.
type world struct {
	dbtest.Env
	c      *coordinate.Coordinator
	tasks  *task.Store
	agents *agent.Store
	q      statements
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	w.c = coordinator(t, e.DB)
	w.tasks, w.agents = w.c.Tasks, w.c.Agents
	dbtest.Load(t, "testdata", &w.q)
	return w
}

// coordinator returns one that works through a handle.
func coordinator(t testing.TB, d *db.DB) *coordinate.Coordinator {
	t.Helper()
	c, err := newCoordinator(d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newCoordinator(d *db.DB) (*coordinate.Coordinator, error) {
	half := func() float64 { return 0.5 }
	c := &coordinate.Coordinator{DB: d, Traces: trace.NewSource(time.Now, rand.Reader), IDs: ids, Random: half, Log: slog.New(slog.DiscardHandler), Instance: "test"}
	var errs [5]error
	c.Lanes, errs[0] = lane.New(d)
	c.Tasks, errs[1] = task.New(d, ids, half)
	c.Agents, errs[2] = agent.New(d, ids)
	c.Outbox, errs[3] = outbox.New(d, ids, half)
	c, errs[4] = c.Open()
	return c, errors.Join(errs[:]...)
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

func (w world) tx(t testing.TB, fn func(context.Context, *db.Tx) error) {
	t.Helper()
	if err := w.DB.Tx(t.Context(), w.Workspace, fn); err != nil {
		t.Fatal(err)
	}
}

func (w world) exec(t testing.TB, q db.Query, args ...any) {
	t.Helper()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, q, args...); err != nil {
		t.Fatal(err)
	}
}

func (w world) number(t testing.TB, q db.Query, args ...any) (n int) {
	t.Helper()
	if err := w.DB.One(t.Context(), w.Workspace, []any{&n}, q, args...); err != nil {
		t.Fatal(err)
	}
	return n
}

// draft is a task as a caller describes it.
func draft(title string) task.Task {
	return task.Task{
		Title: title, Priority: task.DefaultPriority, MaxRetries: task.DefaultRetries, BackoffSeconds: task.DefaultBackoff, CreatedBy: "user:ada",
	}
}

// create adds tasks in one transaction.
func (w world) create(t testing.TB, drafts ...task.Task) (out []string) {
	t.Helper()
	w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		made, err := w.tasks.CreateAll(ctx, tx, drafts)
		out = nil
		for _, is := range made {
			out = append(out, is.ID)
		}
		return err
	})
	return out
}

func (w world) get(t testing.TB, id string) task.Task {
	t.Helper()
	is, err := w.tasks.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// register adds agents in one transaction. A pull agent has sent a heartbeat.
func (w world) register(t testing.TB, drafts ...agent.Agent) (out []string) {
	t.Helper()
	w.tx(t, func(ctx context.Context, tx *db.Tx) error {
		out = nil
		for _, d := range drafts {
			d.ID, d.CoordinatorEnabled, d.CreatedBy = ids(), true, "user:ada"
			is, _, err := w.agents.Register(ctx, tx, d)
			if err != nil {
				return err
			}
			out = append(out, is.ID)
			if is.Spawner == agent.SpawnPull {
				tx.Later().Exec(w.q.Beat, is.ID)
			}
		}
		return nil
	})
	return out
}

func (w world) cycle(t testing.TB) coordinate.Report {
	t.Helper()
	r, err := w.c.Cycle(t.Context(), w.Workspace, "test")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pass lets time pass with a cycle each minute, as the schedule has it, and calls each before each.
func (w world) pass(t testing.TB, d time.Duration, each func()) (sum coordinate.Report) {
	t.Helper()
	for d > 0 {
		step := min(d, time.Minute)
		w.Skew.Advance(step)
		d -= step
		if each != nil {
			each()
		}
		r := w.cycle(t)
		sum.Recovered += r.Recovered
		sum.Requeued += r.Requeued
		sum.Assigned += r.Assigned
		sum.Unclaimed += r.Unclaimed
		sum.TimedOut += r.TimedOut
		sum.Failed += r.Failed
		sum.Warned += r.Warned
		sum.Gone += r.Gone
		sum.MassStale = sum.MassStale || r.MassStale
	}
	return sum
}

// leap lets time pass at once; all agents have sent a heartbeat.
func (w world) leap(t testing.TB, d time.Duration) coordinate.Report {
	t.Helper()
	w.Skew.Advance(d)
	w.exec(t, w.q.BeatSeen)
	return w.cycle(t)
}

// claim claims a task for an agent, and fails if there is none.
func (w world) claim(t testing.TB, agent string) task.Task {
	t.Helper()
	is, ok, err := w.c.Claim(t.Context(), w.Workspace, agent, "")
	if err != nil || !ok {
		t.Fatalf("claim: %v, %v", ok, err)
	}
	return is
}

func (w world) complete(t testing.TB, id string, attempt int) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.tasks.Complete(ctx, tx, task.Report{Task: id, Attempt: attempt, Actor: "agent:a"}, []byte(`{}`), "")
		return err
	})
}

func (w world) status(t testing.TB, agent string) (s agent.Status) {
	t.Helper()
	var enabled bool
	if err := w.DB.One(t.Context(), w.Workspace, []any{&s, &enabled}, w.q.Status, agent); err != nil {
		t.Fatal(err)
	}
	return s
}

func (w world) agentOf(t testing.TB, id string) agent.Agent {
	t.Helper()
	is, err := w.agents.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// sound fails the test if a task has two attempts at once or an agent more tasks than it takes.
func (w world) sound(t testing.TB) {
	t.Helper()
	if n := w.number(t, w.q.Doubled); n > 0 {
		t.Errorf("%d attempts are open that should not be", n)
	}
	if n := w.number(t, w.q.Overloaded); n > 0 {
		t.Errorf("%d agents have more tasks than they take", n)
	}
}

// now returns the time of the database.
func (w world) now(t testing.TB) (at time.Time) {
	t.Helper()
	if err := w.DB.One(t.Context(), w.Workspace, []any{&at}, w.q.Now); err != nil {
		t.Fatal(err)
	}
	return at
}

func newWorkspace(t testing.TB, w world) db.Workspace { return dbtest.NewWorkspace(t, w.DB) }

func budgets(t testing.TB, d *db.DB) *budget.Store {
	t.Helper()
	s, err := budget.New(d, ids, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
