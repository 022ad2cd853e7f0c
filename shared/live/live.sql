-- name: SetResult
-- For $5 milliseconds.
INSERT INTO results (workspace_id, task_id, attempt, value, stored_at, expires_at)
VALUES ($1, $2, $3, $4, lk_now(), lk_plus(lk_now(), $5))
ON CONFLICT (workspace_id, task_id, attempt) DO UPDATE SET
  value = excluded.value, stored_at = excluded.stored_at, expires_at = excluded.expires_at;

-- name: GetResult
SELECT value FROM results
 WHERE workspace_id = $1 AND task_id = $2 AND attempt = $3 AND expires_at > lk_now();

-- name: Now
SELECT lk_now(), settings FROM workspaces WHERE id = $1;

-- name: Pending
SELECT id, priority, created_at
  FROM agent_tasks
 WHERE workspace_id = $1 AND status = 'PENDING'
 ORDER BY priority DESC, created_at, id
 LIMIT $2;

-- name: Active
SELECT id, agent_id, session_key, coalesce(started_at, assigned_at, updated_at)
  FROM agent_tasks
 WHERE workspace_id = $1 AND status IN ('ASSIGNED', 'RUNNING') AND agent_id IS NOT NULL
 ORDER BY assigned_at, id
 LIMIT $2;

-- name: Agents
-- With the task of the latest heartbeat, if the agent still has it, or else the first of its tasks.
SELECT a.id, a.status, a.health,
         (SELECT t.id FROM agent_tasks t
           WHERE t.workspace_id = $1 AND t.agent_id = a.id AND t.status IN ('ASSIGNED', 'RUNNING')
           ORDER BY CASE WHEN t.id = a.current_task_id THEN 0 ELSE 1 END, t.assigned_at, t.id LIMIT 1), a.last_seen_at, a.heartbeat_interval_seconds
  FROM agents a
 WHERE a.workspace_id = $1 AND (a.terminated_at IS NULL OR a.terminated_at > (SELECT lk_plus(lk_now(), -3600000)))
 ORDER BY a.id
 LIMIT $2;

-- name: Recovering
SELECT id
  FROM agent_tasks
 WHERE workspace_id = $1 AND next_attempt_at IS NOT NULL
 ORDER BY next_attempt_at, id
 LIMIT $2;

-- name: Usage
-- Of the shortest period of the workspace's budgets; without a budget, since $2.
WITH budget AS (
  SELECT consumed, consumed_micro_usd, updated_at
    FROM usage_budgets
   WHERE workspace_id = $1 AND scope = 'global' AND period_start <= (SELECT lk_now()) AND period_end > (SELECT lk_now())
   ORDER BY period_end, id
   LIMIT 1)
SELECT consumed, consumed_micro_usd, updated_at FROM budget
UNION ALL
SELECT CAST(sum(total_tokens) AS bigint), CAST(coalesce(sum(cost_micro_usd), 0) AS bigint), max(created_at)
  FROM agent_usage_logs
 WHERE workspace_id = $1 AND created_at >= $2 AND NOT EXISTS (SELECT 1 FROM budget)
HAVING count(*) > 0;

-- name: Alerts
SELECT scope, scope_id, threshold,
       CAST(CASE WHEN allocated > 0 AND consumed < allocated * 10 THEN consumed * 100 / allocated ELSE threshold END AS integer)
  FROM usage_budgets
 WHERE workspace_id = $1 AND threshold > 0 AND period_start <= (SELECT lk_now()) AND period_end > (SELECT lk_now())
 ORDER BY updated_at DESC, id
 LIMIT $2;

-- name: Done
SELECT id, command, agent_id, task_id, reason, created_by, created_at, done_at, outcome
  FROM coordinator_commands
 WHERE workspace_id = $1 AND done_at > $2
 ORDER BY done_at, id
 LIMIT $3;
