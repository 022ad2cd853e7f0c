-- why: a purge must not wait for concurrent writers, where SQLite has one; the engines gather and read lists differently.

-- name: PurgeResults
DELETE FROM results
 WHERE workspace_id = $1 AND (task_id, attempt) IN (
   SELECT o.task_id, o.attempt FROM results o WHERE o.workspace_id = $1 AND o.expires_at <= (SELECT lk_now()) LIMIT 100);

-- name: TaskUsage
-- Of tasks that have not ended.
SELECT b.scope_id, b.allocated, b.consumed, b.allocated - b.consumed,
       (SELECT coalesce(json_group_array(w.agent_id), '[]') FROM (
          SELECT DISTINCT a.agent_id FROM agent_task_attempts a
           WHERE a.workspace_id = $1 AND a.task_id = t.id ORDER BY a.agent_id) w)
  FROM usage_budgets b
  JOIN agent_tasks t ON t.workspace_id = b.workspace_id AND t.id = b.scope_id
   AND t.status IN ('PENDING', 'ASSIGNED', 'RUNNING', 'PAUSED', 'ABORTED') AND t.completed_at IS NULL AND t.failed_at IS NULL
 WHERE b.workspace_id = $1 AND b.scope = 'task' AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now())
 ORDER BY b.updated_at DESC, b.id
 LIMIT $2;

-- name: Completed
SELECT t.id, t.attempt, t.output_result
  FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.status = 'COMPLETED' AND t.id IN (SELECT value FROM json_each($2));
