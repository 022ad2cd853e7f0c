package execution_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine with its executions.
type world struct {
	dbtest.Env
	runs  *execution.Store
	lanes *lane.Store
	q     struct{ Become, HeldFor, FromTheFuture db.Query }
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	dbtest.Load(t, "testdata", &w.q)
	var err1, err2 error
	w.runs, err1 = execution.New(e.DB)
	w.lanes, err2 = lane.New(e.DB)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// neighbour returns another workspace of the same database.
func (w world) neighbour(t testing.TB) world {
	t.Helper()
	w.Workspace = dbtest.NewWorkspace(t, w.DB)
	return w
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

var traces = trace.NewSource(time.Now, rand.Reader)

func (w world) hold(t testing.TB, name lane.Name) *lane.Hold {
	t.Helper()
	h, err := w.lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: name, Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// newExecution returns an execution on a subject that is not stored yet.
func newExecution(subject lane.Name) execution.Execution {
	return execution.Execution{ID: ids(), Agent: activity.Operator, Surface: trace.Heartbeat, Trace: traces.New(trace.Heartbeat), Subject: subject, Attempt: 1}
}

// try runs fn in a transaction that proves the hold.
func (w world) try(t testing.TB, h *lane.Hold, fn func(context.Context, lane.Tx) error) error {
	t.Helper()
	return w.lanes.InHold(t.Context(), h, fn)
}

// start stores a running execution.
func (w world) start(t testing.TB, h *lane.Hold, e execution.Execution) execution.Execution {
	t.Helper()
	w.must(t, h, func(_ context.Context, tx lane.Tx) error { return w.runs.Start(tx, e) })
	return e
}

func (w world) must(t testing.TB, h *lane.Hold, fn func(context.Context, lane.Tx) error) {
	t.Helper()
	if err := w.try(t, h, fn); err != nil {
		t.Fatal(err)
	}
}

func (w world) get(t testing.TB, id string) execution.Execution {
	t.Helper()
	e, err := w.runs.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// become sets a status and ignores all rules.
func (w world) become(t testing.TB, id string, status execution.Status) {
	t.Helper()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Become, id, status); err != nil {
		t.Fatal(err)
	}
}

func (w world) unfinished(t testing.TB, subject lane.Name) []execution.Execution {
	t.Helper()
	var b db.Batch
	found := w.runs.Unfinished(&b, subject)
	if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return *found
}

func (w world) slot(t testing.TB, slot string) []execution.Execution {
	t.Helper()
	var b db.Batch
	found := w.runs.Slot(&b, trace.Heartbeat, slot)
	if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	return *found
}

func note(seq int) execution.Entry {
	return execution.Entry{Seq: seq, Step: seq / 2, Kind: execution.Note, Status: execution.Succeeded, Body: json.RawMessage(`{"n": ` + string(rune('0'+seq)) + `}`)}
}

func (w world) append(t testing.TB, h *lane.Hold, e execution.Execution, entries ...execution.Entry) error {
	t.Helper()
	return w.try(t, h, func(_ context.Context, tx lane.Tx) error {
		for _, entry := range entries {
			if err := w.runs.Append(tx, e, entry); err != nil {
				return err
			}
		}
		return nil
	})
}
