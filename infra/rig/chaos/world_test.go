package chaos_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// functionsPackage has the package of each function.
const functionsPackage = "github.com/lanekeeper/lanekeeper/functions/"

// world is a database with the ledger's triggers, and the bootstrap of one function, which is built
// with fault points.
type world struct {
	owner  string // URL of the schema's owner
	admin  *pgx.Conn
	faults *rig.Faults
	fn     *rig.Function
	minute atomic.Int64
	ahead  time.Duration // time by which the database's clock is ahead
}

// effects is the independent ledger of committed irreversible effects. It reads tables and shares
// no Go code with the product.
const effects = `
CREATE TABLE ledger (at bigserial, workspace uuid, effect text, key text);
CREATE FUNCTION ledger_step() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  IF old.status <> new.status THEN
    INSERT INTO ledger (workspace, effect, key)
    VALUES (new.workspace_id, 'step.' || new.status, new.objective_id || '/' || new.plan_version || '/' || new.number);
  END IF;
  RETURN new;
END $$;
CREATE TRIGGER ledger AFTER UPDATE ON objective_steps FOR EACH ROW EXECUTE FUNCTION ledger_step();
CREATE FUNCTION ledger_objective() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  IF old.status <> new.status THEN
    INSERT INTO ledger (workspace, effect, key) VALUES (new.workspace_id, 'objective.' || new.status, new.id::text);
  END IF;
  IF old.plan_version <> new.plan_version THEN
    INSERT INTO ledger (workspace, effect, key) VALUES (new.workspace_id, 'planned', new.id || '/' || new.plan_version);
  END IF;
  RETURN new;
END $$;
CREATE TRIGGER ledger AFTER UPDATE ON agent_objectives FOR EACH ROW EXECUTE FUNCTION ledger_objective();
CREATE FUNCTION ledger_memory() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO ledger (workspace, effect, key) VALUES (new.workspace_id, 'remembered', new.content);
  RETURN new;
END $$;
CREATE TRIGGER ledger AFTER INSERT OR UPDATE ON agent_memory FOR EACH ROW EXECUTE FUNCTION ledger_memory();
CREATE FUNCTION ledger_result() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  IF new.kind = 'result' AND new.status = 'succeeded' THEN
    INSERT INTO ledger (workspace, effect, key) VALUES (new.workspace_id, 'result', new.execution_id || ':' || new.call_id);
  END IF;
  RETURN new;
END $$;
CREATE TRIGGER ledger AFTER INSERT ON execution_steps FOR EACH ROW EXECUTE FUNCTION ledger_result();
`

// newDatabase returns a world that has only a migrated database.
func newDatabase(t *testing.T) *world {
	t.Helper()
	w := &world{owner: dbtest.Migrated(t)}
	var err error
	if w.admin, err = pgx.Connect(t.Context(), superuser(t, w.owner)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.admin.Close(context.Background()) })
	return w
}

// newWorld returns a world of the function that cfg names; "" is the heartbeat.
func newWorld(t *testing.T, cfg rig.Config) *world {
	t.Helper()
	ctx := t.Context()
	w := newDatabase(t)
	var err error
	w.exec(t, effects)
	if w.faults, err = rig.StartFaults(nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.faults.Close)
	cfg.Name = cmp.Or(cfg.Name, "heartbeat")
	if cfg.Bootstrap, err = rig.Build(ctx, functionsPackage+cfg.Name, "faults"); err != nil {
		t.Fatal(err)
	}
	cfg.Env = rig.Env(w.faults.Env(), map[string]string{"DATABASE_URL": dbtest.AsLogin(w.owner)}, cfg.Env)
	if w.fn, err = rig.Start(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.fn.Close)
	return w
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.admin.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := w.admin.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (w *world) texts(t *testing.T, sql string, args ...any) []string {
	t.Helper()
	rows, err := w.admin.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// advance advances the database's clock for all clients.
func (w *world) advance(t *testing.T, d time.Duration) {
	t.Helper()
	w.ahead += d
	w.exec(t, fmt.Sprintf(`CREATE OR REPLACE FUNCTION lk_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
	  SELECT clock_timestamp() + interval '%d microseconds' $$`, w.ahead.Microseconds()))
}

// workspace adds a workspace with one objective. Its plan has three steps; the second one saves a
// memory.
func (w *world) workspace(t *testing.T) (ws, objective string) {
	t.Helper()
	ws, objective = uuid.NewString(), uuid.NewString()
	w.exec(t, `INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, 'Chaos')`, ws, "chaos-"+ws)
	w.exec(t, `INSERT INTO agent_objectives (workspace_id, id, title, done_criterion, plan_version, created_by, created_at, updated_at)
	           VALUES ($1, $2, 'Survive', 'it is remembered', 1, 'test', lk_now(), lk_now())`, ws, objective)
	for i, st := range []struct{ skill, inputs string }{
		{"query_activity", `{"limit": 5}`},
		{"save_memory", fmt.Sprintf(`{"category": "fact", "content": "remembered in %s", "importance": 5}`, ws)},
		{"complete_objective", `{}`},
	} {
		w.exec(t, `INSERT INTO objective_steps (workspace_id, objective_id, plan_version, number, title, skill, inputs, created_at)
		           VALUES ($1, $2, 1, $3, $4, $4, $5, lk_now())`, ws, objective, i+1, st.skill, st.inputs)
	}
	return ws, objective
}

// tick returns the event of a workspace's next slot, as the fan-out sends it.
func (w *world) tick(ws string) []byte {
	slot := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC).Add(time.Duration(w.minute.Add(1)) * time.Minute)
	raw, _ := json.Marshal(map[string]string{"workspace": ws, "slot": slot.Format(time.RFC3339)})
	return raw
}

// report decodes the response of a beat that ended without an error.
func report(t *testing.T, res *rig.Result, err error) heartbeat.Report {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if res.FunctionError != nil {
		t.Fatalf("the function failed: %v\n%s", res.FunctionError, res.Logs)
	}
	var r heartbeat.Report
	if err := json.Unmarshal(res.Payload, &r); err != nil {
		t.Fatalf("%v in %s", err, res.Payload)
	}
	return r
}

// finish beats until a beat is idle.
func (w *world) finish(t *testing.T, ws string) {
	t.Helper()
	for range 12 {
		res, err := w.fn.Invoke(t.Context(), w.tick(ws))
		if r := report(t, res, err); r.Outcome == heartbeat.Idle {
			return
		}
	}
	logs := w.fn.Logs()
	t.Fatalf("workspace %s is not done after 12 more beats; the log ends\n%s", ws, logs[max(0, len(logs)-2000):])
}

// verify checks what must be true for a workspace after its objective was completed, whatever
// failures happened.
func (w *world) verify(t *testing.T, ws, objective string) {
	t.Helper()
	for key, want := range map[string]int{
		"objective.completed/" + objective: 1,
		"step.done/" + objective + "/1/1":  1,
		"step.done/" + objective + "/1/2":  1,
		"step.done/" + objective + "/1/3":  1,
		"remembered/remembered in " + ws:   1,
	} {
		if got := w.count(t, `SELECT count(*) FROM ledger WHERE workspace = $1 AND effect || '/' || key = $2`, ws, key); got != want {
			t.Errorf("%s happened %d times, want %d", key, got, want)
		}
	}
	if twice := w.texts(t, `SELECT key FROM ledger WHERE workspace = $1 AND effect = 'result' GROUP BY key HAVING count(*) > 1`, ws); len(twice) > 0 {
		t.Errorf("calls with two results: %v", twice)
	}
	if open := w.texts(t, `SELECT id::text FROM executions WHERE workspace_id = $1 AND status IN ('running', 'waiting', 'parked')`, ws); len(open) > 0 {
		t.Errorf("executions that never ended: %v", open)
	}
	if held := w.texts(t, `SELECT lane FROM agent_locks WHERE workspace_id = $1 AND expires_at > lk_now()`, ws); len(held) > 0 {
		t.Errorf("lanes still held: %v", held)
	}
}

// recorded returns the calls of a workspace that have a result.
func (w *world) recorded(t *testing.T, ws string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, key := range w.texts(t, `SELECT key FROM ledger WHERE workspace = $1 AND effect = 'result'`, ws) {
		out[key] = true
	}
	return out
}

// superuser returns a database's URL for a role to which no row-level security applies.
func superuser(t *testing.T, owner string) string {
	t.Helper()
	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := url.Parse(dbtest.Servers(t).PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = admin.User
	return u.String()
}
