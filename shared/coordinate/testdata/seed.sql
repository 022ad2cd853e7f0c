-- name: Beat
UPDATE agents SET last_seen_at = lk_now(), health = 'healthy',
       status = CASE WHEN status IN ('DEGRADED', 'ERROR') THEN CASE WHEN EXISTS (
         SELECT 1 FROM agent_task_attempts o WHERE o.workspace_id = $1 AND o.agent_id = $2 AND o.ended_at IS NULL) THEN 'WORKING' ELSE 'IDLE' END ELSE status END
 WHERE workspace_id = $1 AND id = $2;

-- name: Unseen
UPDATE agents SET last_seen_at = NULL WHERE workspace_id = $1 AND id = $2;

-- name: BeatAll
UPDATE agents SET last_seen_at = lk_now(), health = 'healthy' WHERE workspace_id = $1 AND terminated_at IS NULL;

-- name: Status
SELECT status, coordinator_enabled FROM agents WHERE workspace_id = $1 AND id = $2;

-- name: Overloaded
SELECT count(*) FROM agents a
 WHERE a.workspace_id = $1 AND a.max_concurrent_tasks <
       (SELECT count(*) FROM agent_task_attempts o WHERE o.workspace_id = $1 AND o.agent_id = a.id AND o.ended_at IS NULL);

-- name: Doubled
-- Tasks with more than one open attempt, and active tasks whose open attempt is not the present one.
SELECT (SELECT count(*) FROM (SELECT task_id FROM agent_task_attempts WHERE workspace_id = $1 AND ended_at IS NULL GROUP BY task_id HAVING count(*) > 1) d)
     + (SELECT count(*) FROM agent_tasks t
         WHERE t.workspace_id = $1 AND t.status IN ('ASSIGNED', 'RUNNING')
           AND NOT EXISTS (SELECT 1 FROM agent_task_attempts o
                            WHERE o.workspace_id = $1 AND o.task_id = t.id AND o.number = t.attempt AND o.agent_id = t.agent_id AND o.ended_at IS NULL))
     + (SELECT count(*) FROM agent_task_attempts o JOIN agent_tasks t ON t.workspace_id = o.workspace_id AND t.id = o.task_id
         WHERE o.workspace_id = $1 AND o.ended_at IS NULL AND (t.status NOT IN ('ASSIGNED', 'RUNNING') OR t.attempt <> o.number));

-- name: Edge
INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on) VALUES ($1, $2, $3);

-- name: Circle
-- Each task depends on the next one, and the last on the first.
INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on)
SELECT $1, id, coalesce(lead(id) OVER (ORDER BY id), first_value(id) OVER (ORDER BY id)) FROM agent_tasks WHERE workspace_id = $1;

-- name: Row
-- Each task depends on the next one.
INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on)
SELECT workspace_id, id, next
  FROM (SELECT workspace_id, id, lead(id) OVER (ORDER BY id) AS next FROM agent_tasks WHERE workspace_id = $1) t
 WHERE next IS NOT NULL;

-- name: Failed
UPDATE agent_tasks SET status = 'FAILED', failed_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: Estimated
UPDATE agent_tasks SET estimated_completion_at = lk_plus(lk_now(), CAST($3 AS bigint)), estimated_duration_minutes = CAST($4 AS integer) WHERE workspace_id = $1 AND id = $2;

-- name: Strikes
SELECT strikes, raised, priority FROM agent_tasks WHERE workspace_id = $1 AND id = $2;

-- name: Told
SELECT count(*) FROM events WHERE workspace_id = $1 AND kind = $2;

-- name: Data
SELECT data FROM events WHERE workspace_id = $1 AND kind = $2;

-- name: Rows
SELECT key, status FROM outbox WHERE workspace_id = $1 AND topic = 'spawn' ORDER BY id;

-- name: Thread
INSERT INTO threads (workspace_id, id, channel, address, created_at, updated_at) VALUES ($1, $2, 'log', $3, lk_now(), lk_now());

-- name: Open
INSERT INTO spawner_circuits (workspace_id, target, failures, open_until, last_error, updated_at)
VALUES ($1, $2, 5, lk_plus(lk_now(), 60000), 'it failed', lk_now());

-- name: Overspent
SELECT count(*) FROM usage_budgets b
 WHERE b.workspace_id = $1
   AND b.allocated < b.consumed + (SELECT coalesce(sum(r.tokens), 0) FROM usage_reservations r
                                    WHERE r.workspace_id = $1 AND r.budget_id = b.id AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now()));

-- name: Disable
UPDATE agents SET coordinator_enabled = false WHERE workspace_id = $1 AND id = $2;

-- name: Now
SELECT lk_now() FROM workspaces WHERE id = $1;

-- name: BeatSeen
UPDATE agents SET last_seen_at = lk_now(), health = 'healthy' WHERE workspace_id = $1 AND terminated_at IS NULL AND last_seen_at IS NOT NULL;

-- name: Project
INSERT INTO projects (workspace_id, id, name, created_by, created_at, updated_at) VALUES ($1, $2, 'a project', 'user:ada', lk_now(), lk_now());

-- name: Begin
-- What the answer of a spawner does.
UPDATE agent_tasks SET status = 'RUNNING', started_at = lk_now(), version = version + 1, updated_at = lk_now() WHERE workspace_id = $1 AND id = $2 AND status = 'ASSIGNED';

-- name: Stop
INSERT INTO kill_switches (workspace_id, id, scope, target, set_by, set_at) VALUES ($1, $2, $3, $4, 'user:ada', lk_now());

-- name: Settings
-- global: workspaces is a global table
UPDATE workspaces SET settings = $2 WHERE id = $1;

-- name: Run
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, created_at, updated_at)
VALUES ($1, $2, 'a', 'wk', 'co_test', $3, $4, lk_now(), lk_now());

-- name: RunIs
UPDATE executions SET status = $3, updated_at = lk_now() WHERE workspace_id = $1 AND subject = $2;
