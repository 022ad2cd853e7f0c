-- why: a purge must not wait for concurrent writers, where SQLite has one; the engines gather and read lists differently.

-- name: PurgeResults
WITH old AS MATERIALIZED (
  SELECT task_id, attempt FROM results
   WHERE workspace_id = $1 AND expires_at <= (SELECT lk_now())
   LIMIT 100 FOR UPDATE SKIP LOCKED)
DELETE FROM results r USING old WHERE r.workspace_id = $1 AND r.task_id = old.task_id AND r.attempt = old.attempt;

-- name: TaskUsage
-- Of tasks that have not ended.
SELECT b.scope_id, b.allocated, b.consumed, b.allocated - b.consumed,
       (SELECT coalesce(CAST(jsonb_agg(w.agent_id) AS text), '[]') FROM (
          SELECT DISTINCT a.agent_id FROM agent_task_attempts a
           WHERE a.workspace_id = $1 AND a.task_id = t.id ORDER BY a.agent_id) w)
  FROM (SELECT o.id, CAST(o.id AS text) AS scope_id FROM agent_tasks o
         WHERE o.workspace_id = $1 AND o.status IN ('PENDING', 'ASSIGNED', 'RUNNING', 'PAUSED', 'ABORTED')
           AND o.completed_at IS NULL AND o.failed_at IS NULL
        OFFSET 0) t
  JOIN usage_budgets b ON b.workspace_id = $1 AND b.scope = 'task' AND b.scope_id = t.scope_id
 WHERE b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now())
 ORDER BY b.updated_at DESC, b.id
 LIMIT $2;

-- name: Completed
SELECT t.id, t.attempt, t.output_result
  FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.status = 'COMPLETED' AND t.id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i));
