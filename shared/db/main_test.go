package db_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine and the queries of the tests.
type world struct {
	dbtest.Env
	q struct {
		Add, AddChild, AddOdd, Rename, Shuffled, Agents, Agent, Lock, Store, Fetch, Count db.Query
		Now, Later                                                                        db.Query
	}
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	dbtest.Load(t, "testdata", &w.q)
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// add stores a row and returns its id.
func (w world) add(t testing.TB, agent string) string {
	t.Helper()
	id := uuid.NewString()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Add, id, agent); err != nil {
		t.Fatal(err)
	}
	return id
}

// holds fails unless the workspace has rows of exactly these agents.
func (w world) holds(t testing.TB, want ...string) {
	t.Helper()
	var got []string
	err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
		var agent string
		err := scan(&agent)
		got = append(got, agent)
		return err
	}, w.q.Agents)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the workspace holds %q, want %q", got, want)
	}
}

// spent returns what fn costs.
func (w world) spent(fn func()) db.Stats {
	before := w.DB.Stats()
	fn()
	return w.DB.Stats().Sub(before)
}
