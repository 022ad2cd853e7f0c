package chaos_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/infra/rig"
)

// receiver is an external system. It counts its requests and has one effect per key.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	came  map[string]int // requests, by workspace and path
	keyed map[string]map[string]bool
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{came: map[string]int{}, keyed: map[string]map[string]bool{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body struct{ Workspace string }
	if err := json.NewDecoder(io.LimitReader(req.Body, 1<<20)).Decode(&body); err != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came[body.Workspace+req.URL.Path]++
	if key := req.Header.Get("Idempotency-Key"); key != "" {
		if r.keyed[body.Workspace] == nil {
			r.keyed[body.Workspace] = map[string]bool{}
		}
		r.keyed[body.Workspace][key] = true
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"ok": true}`)
}

// seen returns how often a path was called for a workspace, and under how many keys.
func (r *receiver) seen(ws, path string) (times, keys int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came[ws+path], len(r.keyed[ws])
}

// outside creates a workspace with an objective. Its plan calls "charge", which sends a key, or
// "shout", which sends none, and then completes the objective.
func (w *world) outside(t *testing.T, r *receiver, skill string) (ws, objective string) {
	t.Helper()
	ws, objective = uuid.NewString(), uuid.NewString()
	w.exec(t, `INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, 'Outside')`, ws, "outside-"+ws)
	for name, header := range map[string]string{"charge": "Idempotency-Key", "shout": ""} {
		config := map[string]any{"url": r.URL + "/" + name}
		if header != "" {
			config["idempotencyKeyHeader"] = header
		}
		raw, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		w.exec(t, `INSERT INTO agent_skills (workspace_id, id, name, description, parameters, kind, scope, requires_approval, serial, config, created_by, created_at, updated_at)
		           VALUES ($1, $2, $3, $3, $4, 'http', 'internal', false, false, $5, 'test', lk_now(), lk_now())`, ws, uuid.NewString(), name,
			`{"type": "object", "properties": {"workspace": {"type": "string"}}, "required": ["workspace"]}`, string(raw))
	}
	w.exec(t, `INSERT INTO agent_objectives (workspace_id, id, title, done_criterion, plan_version, created_by, created_at, updated_at)
	           VALUES ($1, $2, 'Reach out', 'it was reached', 1, 'test', lk_now(), lk_now())`, ws, objective)
	for i, name := range []string{skill, "complete_objective"} {
		w.exec(t, `INSERT INTO objective_steps (workspace_id, objective_id, plan_version, number, title, skill, inputs, created_at)
		           VALUES ($1, $2, 1, $3, $4, $4, $5, lk_now())`, ws, objective, i+1, name, fmt.Sprintf(`{"workspace": %q}`, ws))
	}
	return ws, objective
}

// TestAnEffectOutsideIsNotRepeated kills the process at every point of a remote call. With a key
// the call is made again and has one effect. Without a key it is marked uncertain and not made
// again, and its objective waits for a person.
func TestAnEffectOutsideIsNotRepeated(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	u, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, rig.Config{Env: map[string]string{"ALLOW_PRIVATE_HOSTS": u.Host}})
	for _, skill := range []string{"charge", "shout"} {
		ws, _ := w.outside(t, r, skill)
		w.faults.OnPoint(nil)
		from := len(w.faults.Points())
		w.finish(t, ws)
		if times, _ := r.seen(ws, "/"+skill); times != 1 {
			t.Fatalf("undisturbed, %s reaches the world %d times", skill, times)
		}
		turns, points := map[string]int{}, []reached{}
		for _, p := range w.faults.Points()[from:] {
			turns[p.Name]++
			if strings.HasPrefix(p.Name, "skill.") || strings.HasPrefix(p.Name, "model.") {
				points = append(points, reached{p.Name, turns[p.Name]})
			}
		}
		for _, where := range sample(t, points, 10) {
			t.Run(skill+"/"+where.name+"/"+strconv.Itoa(where.turn), func(t *testing.T) {
				ws, objective := w.outside(t, r, skill)
				w.faults.OnPoint(at(where, rig.Kill))
				for killed := false; !killed; {
					res, err := w.fn.Invoke(t.Context(), w.tick(ws))
					if err != nil {
						t.Fatal(err)
					}
					killed = res.Killed
				}
				w.settle(t)
				w.faults.OnPoint(nil)
				w.advance(t, 10*time.Minute)
				w.finish(t, ws)
				w.reachedOnce(t, r, ws, objective, skill, where)
			})
		}
	}
}

// reachedOnce checks that the effect happened once, or that it is marked as unknown and a person is
// asked.
func (w *world) reachedOnce(t *testing.T, r *receiver, ws, objective, skill string, where reached) {
	t.Helper()
	times, keys := r.seen(ws, "/"+skill)
	uncertain := w.count(t, `SELECT count(*) FROM execution_steps WHERE workspace_id = $1 AND status = 'uncertain'`, ws)
	status := w.texts(t, `SELECT status || ': ' || coalesce(status_reason, '') FROM agent_objectives WHERE workspace_id = $1 AND id = $2`, ws, objective)[0]
	switch {
	case skill == "charge":
		if keys != 1 || times > 2 || uncertain > 0 || !strings.HasPrefix(status, "completed") {
			t.Errorf("killed at %v, a keyed call came %d times under %d keys, %d uncertain; the objective is %s", where, times, keys, uncertain, status)
		}
	case uncertain == 0:
		if times != 1 || !strings.HasPrefix(status, "completed") {
			t.Errorf("killed at %v, the call came %d times; the objective is %s", where, times, status)
		}
	default:
		if times > 1 || uncertain != 1 || !strings.HasPrefix(status, "paused") || !strings.Contains(status, "shout") {
			t.Errorf("killed at %v, the call came %d times, %d uncertain; the objective is %s", where, times, uncertain, status)
		}
	}
	if open := w.texts(t, `SELECT id::text FROM executions WHERE workspace_id = $1 AND status IN ('running', 'waiting', 'parked')`, ws); len(open) > 0 {
		t.Errorf("executions that never ended: %v", open)
	}
}
