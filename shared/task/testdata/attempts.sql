-- name: Assign
UPDATE agent_tasks SET status = 'ASSIGNED', attempt = attempt + 1, agent_id = $3, session_key = 's', assigned_at = lk_now(), version = version + 1
 WHERE workspace_id = $1 AND id = $2 AND status = 'PENDING';
-- name: Attempt
INSERT INTO agent_task_attempts (workspace_id, task_id, number, agent_id, session_key, started_at)
SELECT t.workspace_id, t.id, t.attempt, t.agent_id, t.session_key, lk_now() FROM agent_tasks t WHERE t.workspace_id = $1 AND t.id = $2;
-- name: Start
UPDATE agent_tasks SET status = 'RUNNING', started_at = lk_now(), version = version + 1 WHERE workspace_id = $1 AND id = $2 AND status = 'ASSIGNED';
-- name: Attempts
SELECT number, coalesce(outcome, ''), checkpoint_version FROM agent_task_attempts WHERE workspace_id = $1 AND task_id = $2 ORDER BY number;
-- name: AddThread
INSERT INTO threads (workspace_id, id, channel, address, created_at, updated_at) VALUES ($1, $2, 'log', 'ada', lk_now(), lk_now());
-- name: EditLog
UPDATE agent_task_logs SET message = 'other' WHERE workspace_id = $1 AND task_id = $2;
-- name: ClearLog
DELETE FROM agent_task_logs WHERE workspace_id = $1 AND task_id = $2;
-- name: Remove
DELETE FROM agent_tasks WHERE workspace_id = $1 AND id = $2;
-- name: AllEdges
SELECT task_id, depends_on FROM agent_task_dependencies WHERE workspace_id = $1;
-- name: Happened
SELECT kind, data FROM events WHERE workspace_id = $1 AND subject = CAST($2 AS text) ORDER BY xid, id;
-- name: AddTask
INSERT INTO agent_tasks (workspace_id, id, title, created_by, created_at, updated_at) VALUES ($1, $2, 'one of many', 'user:ada', lk_now(), lk_now());
-- name: AddEdge
INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on) VALUES ($1, $2, $3);
