-- name: AddTask
INSERT INTO agent_tasks (workspace_id, id, title, created_by, created_at, updated_at) VALUES ($1, $2, 'one', 'user:ada', lk_now(), lk_now());
-- name: Assign
UPDATE agent_tasks SET status = 'ASSIGNED', attempt = attempt + 1, agent_id = $3, version = version + 1 WHERE workspace_id = $1 AND id = $2 AND status = 'PENDING';
-- name: Attempt
INSERT INTO agent_task_attempts (workspace_id, task_id, number, agent_id, started_at)
SELECT t.workspace_id, t.id, t.attempt, t.agent_id, lk_now() FROM agent_tasks t WHERE t.workspace_id = $1 AND t.id = $2;
-- name: Start
UPDATE agent_tasks SET status = 'RUNNING', started_at = lk_now(), version = version + 1
 WHERE workspace_id = $1 AND id = $2 AND status = 'ASSIGNED';
-- name: Late
UPDATE agent_tasks SET estimated_completion_at = lk_plus(lk_now(), CAST($3 AS bigint)) WHERE workspace_id = $1 AND id = $2;
-- name: LongRun
UPDATE agent_tasks SET started_at = lk_plus(lk_now(), CAST($3 AS bigint)), estimated_duration_minutes = $4
 WHERE workspace_id = $1 AND id = $2;
-- name: Change
UPDATE agent_tasks SET status = $3, cancelled = $4, status_reason = $5 WHERE workspace_id = $1 AND id = $2;
-- name: End
UPDATE agent_task_attempts SET ended_at = lk_now(), outcome = $3 WHERE workspace_id = $1 AND task_id = $2 AND ended_at IS NULL;
-- name: Put
UPDATE agents SET status = $3, health = $4 WHERE workspace_id = $1 AND id = $2;
-- name: Age
UPDATE agents SET last_seen_at = lk_plus(last_seen_at, CAST($3 AS bigint)) WHERE workspace_id = $1 AND id = $2;
-- name: Begun
UPDATE agent_tasks SET started_at = lk_plus(started_at, CAST($3 AS bigint)) WHERE workspace_id = $1 AND agent_id = $2;
-- name: Routed
UPDATE agent_task_attempts SET model = $3 WHERE workspace_id = $1 AND task_id = $2;
-- name: Happened
SELECT kind, data FROM events WHERE workspace_id = $1 AND subject = CAST($2 AS text) ORDER BY xid, id;
