package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const (
	cycleAgents = 500
	cycleRuns   = 3 // cycles of each size; the median counts
)

// cycles measures one cycle of the coordinator with 500 agents, tasks under 3 levels of budgets
// (global, project, milestone) and more and more of them, in a new workspace each time.
func cycles(ctx context.Context, _ int) ([]Row, error) {
	d, url, stop, err := database(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	c, err := coordinator(d)
	if err != nil {
		return nil, err
	}
	owner, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer owner.Close(ctx)
	var rows []Row
	var base float64
	var first db.Stats
	for _, n := range []int{1_000, 10_000, 100_000} {
		var times []float64
		var cost db.Stats
		var did coordinate.Report
		var last db.Workspace
		for range cycleRuns {
			ws, err := seedTasks(ctx, owner, n, cycleAgents, 1)
			if err != nil {
				return nil, err
			}
			before, begun := d.Stats(), time.Now()
			if did, err = c.Cycle(ctx, ws, "hand"); err != nil {
				return nil, err
			}
			last = ws
			times = append(times, float64(time.Since(begun).Microseconds())/1e3)
			if took := d.Stats().Sub(before); cost.Statements == 0 || took.Statements < cost.Statements {
				cost = took // one of them may have read prices again, which are kept for a minute
			}
			if did.Assigned != cycleAgents {
				return nil, fmt.Errorf("a cycle assigned %d of %d tasks to %d agents", did.Assigned, n, cycleAgents)
			}
		}
		if n == 1_000 {
			base, first = median(times), cost
		}
		var held int
		if err := owner.QueryRow(ctx, "SELECT count(*) FROM usage_reservations WHERE workspace_id = $1", string(last)).Scan(&held); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("coordinator cycle at %s pending", thousands(n))
		rows = append(rows,
			Row{
				Name: name, Value: median(times), Unit: "ms", Limit: map[int]float64{10_000: 1000}[n],
				Detail: fmt.Sprintf("%d agents, 3 budget levels, %d assigned, %d reservations; %.1f times the one at 1,000", cycleAgents, did.Assigned, held, median(times)/base),
			},
			Row{
				Name: name + ", statements", Value: float64(cost.Statements), Limit: float64(first.Statements),
				Detail: fmt.Sprintf("in %d round trips; the limit is the number at 1,000", cost.RoundTrips),
			})
	}
	return rows, nil
}

// coordinator returns a coordinator on a database.
func coordinator(d *db.DB) (*coordinate.Coordinator, error) {
	c := &coordinate.Coordinator{
		DB: d, Traces: trace.NewSource(time.Now, rand.Reader), IDs: newID, Random: mathrand.Float64,
		Log: slog.New(slog.DiscardHandler), Instance: "bench",
	}
	var errs [5]error
	c.Lanes, errs[0] = lane.New(d)
	c.Tasks, errs[1] = task.New(d, newID, mathrand.Float64)
	c.Agents, errs[2] = agent.New(d, newID)
	c.Outbox, errs[3] = outbox.New(d, newID, mathrand.Float64)
	c.Budgets, errs[4] = budget.New(d, newID, time.Now)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return c.Open()
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// seed fills a workspace: $1, with $2 tasks in 10 milestones of one project, and $3 agents that work
// on $4 tasks each. Triggers are off and keys are in order, so that a million tasks take minutes; what
// triggers would write is not what is measured.
const seed = `
SET session_replication_role = replica;
SET synchronous_commit = off;
INSERT INTO workspaces (id, slug, name) VALUES ('{ws}', 'w-{ws}', 'Bench');
INSERT INTO projects (workspace_id, id, name, created_by, created_at, updated_at) VALUES ('{ws}', '{ws}', 'p', 'bench', lk_now(), lk_now());
INSERT INTO milestones (workspace_id, id, project_id, name, created_by, created_at, updated_at)
SELECT '{ws}', ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, '{ws}', 'm' || n, 'bench', lk_now(), lk_now() FROM generate_series(1, 10) n;
INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, period_start, period_end, created_by, created_at, updated_at)
SELECT '{ws}', gen_random_uuid(), s.scope, s.id, 1000000000000, lk_now() - interval '1 day', lk_now() + interval '30 days', 'bench', lk_now(), lk_now()
  FROM (SELECT 'global' AS scope, '' AS id UNION ALL SELECT 'project', '{ws}'
        UNION ALL SELECT 'milestone', id::text FROM milestones WHERE workspace_id = '{ws}') s;
INSERT INTO agents (workspace_id, id, name, max_concurrent_tasks, heartbeat_interval_seconds, stale_threshold_seconds, health, last_seen_at, idle_since, created_by, created_at, updated_at)
SELECT '{ws}', gen_random_uuid(), 'a' || n, {each}, 3600, 7200, 'healthy', now(), now(), 'bench', now(), now() FROM generate_series(1, {agents}) n;
INSERT INTO agent_tasks (workspace_id, id, title, priority, project_id, milestone_id, created_by, created_at, updated_at)
SELECT '{ws}', ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'task ' || n, 1 + n * 10 / (1 + {tasks}), '{ws}',
       ('00000000-0000-7000-8000-' || lpad((1 + n * 10 / (1 + {tasks}))::text, 12, '0'))::uuid, 'bench', now() - n * interval '1 millisecond', now()
  FROM generate_series(1::bigint, {tasks}) n;
SET session_replication_role = origin;
`

// seedTasks makes a workspace with pending tasks and agents.
func seedTasks(ctx context.Context, owner *pgx.Conn, tasks, agents, each int) (db.Workspace, error) {
	ws := newID()
	fill := strings.NewReplacer("{ws}", ws, "{tasks}", fmt.Sprint(tasks), "{agents}", fmt.Sprint(agents), "{each}", fmt.Sprint(each)).Replace(seed)
	if _, err := owner.PgConn().Exec(ctx, fill).ReadAll(); err != nil {
		return "", fmt.Errorf("fill a workspace with %d tasks: %w", tasks, err)
	}
	if _, err := owner.PgConn().Exec(ctx, "VACUUM ANALYZE agent_tasks, agents, usage_budgets, agent_task_attempts").ReadAll(); err != nil {
		return "", fmt.Errorf("analyze: %w", err)
	}
	return db.Workspace(ws), nil
}

// thousands formats a number with commas.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
