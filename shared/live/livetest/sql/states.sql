-- name: Force
-- Puts a task in a state, as agents and the coordinator do; $3 is its status, $4 an agent or null, $5 its attempt.
UPDATE agent_tasks SET status = $3, agent_id = $4, session_key = CASE WHEN CAST($4 AS uuid) IS NULL THEN NULL ELSE 's' END, attempt = $5, cancelled = $6,
       next_attempt_at = CASE WHEN CAST($7 AS bigint) IS NULL THEN NULL ELSE lk_plus(lk_now(), CAST($7 AS bigint)) END,
       completed_at = CASE WHEN $3 = 'COMPLETED' THEN lk_now() END, version = version + 1
 WHERE workspace_id = $1 AND id = $2;

-- name: Attempt
INSERT INTO agent_task_attempts (workspace_id, task_id, number, agent_id, session_key, started_at)
VALUES ($1, $2, 1, $3, 's', lk_now());

-- name: Ended
UPDATE agent_task_attempts SET ended_at = lk_now(), outcome = 'completed' WHERE workspace_id = $1 AND task_id = $2;
