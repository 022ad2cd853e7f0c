package agent_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// the test servers live as long as the process, and one goroutine each awaits their end
		goleak.IgnoreAnyFunction("github.com/lanekeeper/lanekeeper/shared/db/dbtest/servers.spawn.func1"))
}

// world is a fresh workspace on one engine with its agents.
type world struct {
	dbtest.Env
	s *agent.Store
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	var err error
	if w.s, err = agent.New(e.DB, ids); err != nil {
		t.Fatal(err)
	}
	return w
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

// tx runs fn in a transaction.
func (w world) tx(t testing.TB, fn func(context.Context, *db.Tx) error) error {
	t.Helper()
	return w.DB.Tx(t.Context(), w.Workspace, fn)
}

// draft is an agent as a caller describes it.
func draft(name string) agent.Agent {
	return agent.Agent{ID: ids(), Name: name, CoordinatorEnabled: true, CreatedBy: "user:ada"}
}

func (w world) register(t testing.TB, d agent.Agent) (is agent.Agent, added bool, err error) {
	t.Helper()
	err = w.tx(t, func(ctx context.Context, tx *db.Tx) (err error) {
		is, added, err = w.s.Register(ctx, tx, d)
		return err
	})
	return is, added, err
}

// registered returns a new agent.
func (w world) registered(t testing.TB, d agent.Agent) agent.Agent {
	t.Helper()
	is, added, err := w.register(t, d)
	if err != nil || !added {
		t.Fatalf("register: added %t, %v", added, err)
	}
	return is
}

func (w world) get(t testing.TB, id string) agent.Agent {
	t.Helper()
	is, err := w.s.Get(t.Context(), w.Workspace, id)
	if err != nil {
		t.Fatal(err)
	}
	return is
}
