package work_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func ids() string { return uuid.Must(uuid.NewV7()).String() }

var traces = trace.NewSource(time.Now, rand.Reader)

// world is a fresh workspace on one engine, with a worker and one unit of work.
type world struct {
	dbtest.Env
	work.Worker
	activity *activity.Log
	q        struct{ Become, Forget db.Query }

	id     string // of the execution
	acted  int    // number of calls
	act    func(context.Context, reason.Job) (reason.Outcome, error)
	ends   []work.Outcome
	hooked error // the error that in has found
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) *world {
	t.Helper()
	w := &world{Env: e, id: ids()}
	var errs [4]error
	w.Lanes, errs[0] = lane.New(e.DB)
	w.Runs, errs[1] = execution.New(e.DB)
	w.activity, errs[2] = activity.New(e.DB, ids)
	w.Outbox, errs[3] = outbox.New(e.DB, ids, mathrand.Float64)
	dbtest.Load(t, "testdata", &w.q)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w.Reason = &reason.Runner{
		Runs: w.Runs, Lanes: w.Lanes, Activity: w.activity, Queues: queue.New(queue.Options{}), Log: log, Clock: time.Now,
	}
	return w
}

func (w *world) lane() lane.Name { return lane.Execution(w.id) }

func (w *world) kick() string { return "execution:" + w.id }

// unit returns a unit that begins or resumes the world's execution and acts with w.act.
func (w *world) unit() work.Unit {
	return work.Unit{
		Name: "test", Lane: lane.Request{Workspace: w.Workspace, Lane: w.lane(), Holder: "test"},
		Kick: outbox.Row{Kind: outbox.Kick, Topic: "test", Key: w.kick(), Delay: time.Hour},
		Begin: func(ctx context.Context, s *work.Start) error {
			w.in(ctx)
			switch {
			case s.Begun:
				return nil
			case len(s.Open) > 0:
				return s.Resume(ctx, s.Open[0])
			}
			return s.New(ctx, execution.Execution{
				ID: w.id, Agent: activity.Operator, Surface: trace.Operate, Trace: traces.New(trace.Operate), Subject: w.lane(), Attempt: 1,
			})
		},
		Act: func(ctx context.Context, job reason.Job) (reason.Outcome, error) {
			if work.InHook(ctx) {
				w.hooked = errors.New("Act is taken for a hook")
			}
			w.acted++
			return w.act(ctx, job)
		},
		End: func(ctx context.Context, tx lane.Tx, out *work.Outcome) error {
			w.in(ctx)
			w.ends = append(w.ends, *out)
			w.activity.Record(ctx, tx.Later(), activity.Entry{
				Agent: activity.Operator, Surface: trace.Operate, Skill: "test.end", Status: activity.Success, Execution: out.Execution.ID,
				Attempt: out.Execution.Attempt,
			})
			return nil
		},
	}
}

// in checks that a hook's context is recognised as one.
func (w *world) in(ctx context.Context) {
	if !work.InHook(ctx) {
		w.hooked = errors.New("a hook is not known by its context")
	}
}

// does returns an Act with the given status or error.
func does(status execution.Status, err error) func(context.Context, reason.Job) (reason.Outcome, error) {
	return func(context.Context, reason.Job) (reason.Outcome, error) {
		return reason.Outcome{Status: status, Reason: "so it was told"}, err
	}
}

// once runs a unit that must not fail.
func (w *world) once(t testing.TB, u work.Unit) work.Outcome {
	t.Helper()
	out, err := w.Do(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *world) stored(t testing.TB) execution.Execution {
	t.Helper()
	e, err := w.Runs.Get(context.Background(), w.Workspace, w.id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// is fails unless the stored execution has this status and attempt.
func (w *world) is(t testing.TB, status execution.Status, attempt int) {
	t.Helper()
	if e := w.stored(t); e.Status != status || e.Attempt != attempt {
		t.Errorf("it is %s in attempt %d (%s), want %s in attempt %d", e.Status, e.Attempt, e.Error, status, attempt)
	}
}

// row returns the kick, and whether it is due.
func (w *world) row(t testing.TB) (row outbox.Entry, due bool) {
	t.Helper()
	all, _, err := w.Outbox.List(context.Background(), w.Workspace, outbox.Filter{Topic: "test"})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d kicks, %v", len(all), err)
	}
	var b db.Batch
	n := w.Outbox.Due(&b, "test")
	if err := w.DB.Read(context.Background(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return all[0], *n == 1
}

// kicks fails unless the kick has this status and due state.
func (w *world) kicks(t testing.TB, status outbox.Status, due bool) {
	t.Helper()
	if row, is := w.row(t); row.Status != status || is != due {
		t.Errorf("the kick is %s, due %v; want %s, %v", row.Status, is, status, due)
	}
}

// becomes sets the kick's status and ignores the usual transitions.
func (w *world) becomes(t testing.TB, status outbox.Status) {
	t.Helper()
	if _, err := w.DB.Exec(context.Background(), w.Workspace, w.q.Become, status); err != nil {
		t.Fatal(err)
	}
}

// logged returns how often End has written.
func (w *world) logged(t testing.TB) int {
	t.Helper()
	page, err := w.activity.List(context.Background(), w.Workspace, activity.Filter{Skill: "test.end", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Items)
}

// force releases a lane by force, like a process that takes it over.
func (w *world) force(t testing.TB, name lane.Name) {
	t.Helper()
	err := w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.Lanes.ForceRelease(ctx, tx, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mustBeFree fails if any lane of the workspace is held.
func (w *world) mustBeFree(t testing.TB) {
	t.Helper()
	held, err := w.Lanes.List(context.Background(), w.Workspace, 100)
	if err != nil || len(held) > 0 {
		t.Errorf("held are %v, %v", held, err)
	}
	if w.hooked != nil {
		t.Error(w.hooked)
	}
}

func (w *world) acquire(t testing.TB, name lane.Name) *lane.Hold {
	t.Helper()
	h, err := w.Lanes.Acquire(context.Background(), lane.Request{Workspace: w.Workspace, Lane: name, Holder: "another"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
