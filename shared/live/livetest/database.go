package livetest

import (
	"embed"
	"io/fs"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

//go:embed sql
var files embed.FS

type queries struct{ Force, Attempt, Ended db.Query }

// Database returns the contract on the database of a test.
func Database(t testing.TB, d *db.DB) *live.Database {
	t.Helper()
	ids := func() string { return uuid.Must(uuid.NewV7()).String() }
	random := func() float64 { return 0.5 }
	tasks, err := task.New(d, ids, random)
	ok(t, err)
	runs, err := execution.New(d)
	ok(t, err)
	out, err := outbox.New(d, ids, random)
	ok(t, err)
	threads, err := thread.New(d, runs, out, ids, slog.New(slog.DiscardHandler))
	ok(t, err)
	lanes, err := lane.New(d)
	ok(t, err)
	s, err := live.NewDatabase(d, tasks, threads, lanes)
	ok(t, err)
	return s
}

// OnDatabase returns the world of a database.
func OnDatabase(t testing.TB, e dbtest.Env) *World {
	t.Helper()
	var q queries
	sub, err := fs.Sub(files, "sql")
	ok(t, err)
	ok(t, db.Load(sub, &q))
	s := Database(t, e.DB)
	w := &World{
		Ephemeral: s, Durable: s, Workspace: e.Workspace, Other: dbtest.NewWorkspace(t, e.DB),
		Advance: func(_ testing.TB, d time.Duration) { e.Skew.Advance(d) },
	}
	w.Force = func(t testing.TB, of string, s State) {
		t.Helper()
		ws := w.Workspace
		if _, err := w.Durable.GetTask(t.Context(), ws, of); err != nil {
			ws = w.Other
		}
		force(t, e.DB, q, ws, of, s)
	}
	w.Attempt = func(t testing.TB) live.Attempt {
		t.Helper()
		made, err := w.Durable.CreateTask(t.Context(), w.Workspace, draft("one with a result"))
		ok(t, err)
		w.Force(t, made.ID, Running)
		return live.Attempt{Task: made.ID, Number: 1}
	}
	return w
}

func force(t testing.TB, d *db.DB, q queries, ws db.Workspace, of string, s State) {
	t.Helper()
	if s == Pending {
		return
	}
	status, agent, attempt, backoff := string(s), any(nil), 1, any(nil)
	switch s {
	case Assigned, Running:
		agent = newID()
	case Paused:
		attempt = 0
	case Backoff:
		status, backoff = "ABORTED", time.Hour.Milliseconds()
	case Due:
		status, backoff = "ABORTED", -time.Second.Milliseconds()
	case Cancelled:
		status = "ABORTED"
	}
	var b db.Batch
	b.Exec(q.Force, of, status, agent, attempt, s == Cancelled, backoff)
	if attempt > 0 {
		b.Exec(q.Attempt, of, newID())
	}
	if agent == nil && attempt > 0 {
		b.Exec(q.Ended, of)
	}
	ok(t, d.Do(t.Context(), ws, &b))
}
