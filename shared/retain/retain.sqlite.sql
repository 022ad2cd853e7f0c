-- why: SQLite has no roles and no ctid, and a deletion returns the number of deleted rows.
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
-- By the ids, which grow with time; those of conflicts do not, and are found by their time.
WITH kept AS MATERIALIZED (
  SELECT lk_plus(lk_now(), 0 - $2) AS since, printf('%012x', lk_plus(lk_now(), 0 - $2) / 1000) AS hex),
gone AS MATERIALIZED (
  SELECT * FROM (
    SELECT l.id
      FROM agent_task_logs l
     CROSS JOIN agent_tasks t ON t.workspace_id = l.workspace_id AND t.id = l.task_id
     WHERE l.workspace_id = $1 AND l.id < (SELECT substr(hex, 1, 8) || '-' || substr(hex, 9) FROM kept)
       AND l.created_at < (SELECT since FROM kept)
       AND t.updated_at < (SELECT since FROM kept) AND (t.status IN ('COMPLETED', 'FAILED', 'ARCHIVED') OR t.cancelled)
     ORDER BY l.id
     LIMIT 2000)
  UNION
  SELECT * FROM (
    SELECT l.id
      FROM agent_task_logs l
     CROSS JOIN agent_tasks t ON t.workspace_id = l.workspace_id AND t.id = l.task_id
     WHERE l.workspace_id = $1 AND l.event = 'conflict' AND l.created_at < (SELECT since FROM kept)
       AND t.updated_at < (SELECT since FROM kept) AND (t.status IN ('COMPLETED', 'FAILED', 'ARCHIVED') OR t.cancelled)
     ORDER BY l.created_at
     LIMIT 2000))
DELETE FROM agent_task_logs WHERE workspace_id = $1 AND id IN (SELECT id FROM gone)
RETURNING 1;

-- name: Executions
DELETE FROM executions WHERE workspace_id = $1 AND id IN (
  SELECT e.id
  @oldExecutions)
RETURNING 1;

-- name: Outbox
DELETE FROM outbox WHERE workspace_id = $1 AND id IN (
  SELECT id
  @oldOutbox)
RETURNING 1;

-- name: Approvals
DELETE FROM approvals WHERE workspace_id = $1 AND id IN (
  SELECT id
  @oldApprovals)
RETURNING 1;

-- name: Heals
DELETE FROM heals WHERE workspace_id = $1 AND id IN (
  SELECT id
  @oldHeals)
RETURNING 1;

-- name: Memories
DELETE FROM agent_memory WHERE workspace_id = $1 AND id IN (
  SELECT id
  @oldMemories)
RETURNING 1;

-- name: Budgets
DELETE FROM usage_budgets WHERE workspace_id = $1 AND id IN (
  SELECT id
  @oldBudgets)
RETURNING 1;

-- name: Keys
DELETE FROM idempotency_keys WHERE workspace_id = $1 AND (route, principal, key_hash) IN (
  SELECT k.route, k.principal, k.key_hash
  @oldKeys)
RETURNING 1;

-- name: Inbox
DELETE FROM inbox WHERE workspace_id = $1 AND id IN (
  SELECT id
  @oldInbox)
RETURNING 1;

-- name: Deliveries
DELETE FROM deliveries WHERE workspace_id = $1 AND id IN (
  SELECT id
  @oldDeliveries)
RETURNING 1;

-- name: Dismissals
DELETE FROM failure_dismissals WHERE workspace_id = $1 AND (kind, id) IN (
  SELECT d.kind, d.id
  @oldDismissals)
RETURNING 1;
