-- why: SQLite has no roles, and a deletion returns the number of deleted rows.
-- name: Activity
DELETE FROM agent_activity WHERE workspace_id = $1 AND id IN (
  SELECT id FROM agent_activity WHERE workspace_id = $1 AND created_at < lk_plus((SELECT lk_now()), 0 - $2) ORDER BY created_at LIMIT 2000)
RETURNING 1;

-- name: Events
DELETE FROM events WHERE workspace_id = $1 AND id IN (
  SELECT id FROM (SELECT id, created_at FROM events WHERE workspace_id = $1 ORDER BY xid, id LIMIT 2000) AS oldest
   WHERE created_at < lk_plus((SELECT lk_now()), 0 - $2))
RETURNING 1;

-- name: Usage
DELETE FROM agent_usage_logs WHERE workspace_id = $1 AND id IN (
  SELECT id FROM agent_usage_logs WHERE workspace_id = $1 AND created_at < lk_plus((SELECT lk_now()), 0 - $2) ORDER BY created_at LIMIT 2000)
RETURNING 1;

-- name: TaskLogs
DELETE FROM agent_task_logs WHERE workspace_id = $1 AND id IN (
  SELECT l.id
    FROM agent_task_logs l
    JOIN agent_tasks t ON t.workspace_id = l.workspace_id AND t.id = l.task_id
   WHERE l.workspace_id = $1 AND l.created_at < lk_plus((SELECT lk_now()), 0 - $2)
     AND t.updated_at < lk_plus((SELECT lk_now()), 0 - $2) AND (t.status IN ('COMPLETED', 'FAILED', 'ARCHIVED') OR t.cancelled)
   ORDER BY l.id
   LIMIT 2000)
RETURNING 1;
