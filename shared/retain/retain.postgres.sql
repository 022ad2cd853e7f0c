-- why: the application may only append to some tables, so a function of their owner deletes, and rows
-- are deleted by their places (ctid): a set of keys would be compared with each row of the workspace
-- where the planner expects few rows.

-- name: Activity
SELECT lk_purge_activity(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;

-- name: Events
SELECT lk_purge_events(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;

-- name: Usage
SELECT lk_purge_usage(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;

-- name: TaskLogs
SELECT lk_purge_task_logs(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;

-- name: Executions
WITH gone AS MATERIALIZED (
  SELECT e.ctid AS tid
  @oldExecutions)
DELETE FROM executions WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
RETURNING 1;

-- name: Outbox
WITH gone AS MATERIALIZED (
  SELECT ctid AS tid
  @oldOutbox)
DELETE FROM outbox WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
RETURNING 1;

-- name: Approvals
WITH gone AS MATERIALIZED (
  SELECT ctid AS tid
  @oldApprovals)
DELETE FROM approvals WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
RETURNING 1;

-- name: Heals
WITH gone AS MATERIALIZED (
  SELECT ctid AS tid
  @oldHeals)
DELETE FROM heals WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
RETURNING 1;

-- name: Memories
WITH gone AS MATERIALIZED (
  SELECT ctid AS tid
  @oldMemories)
DELETE FROM agent_memory WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
RETURNING 1;

-- name: Budgets
WITH gone AS MATERIALIZED (
  SELECT ctid AS tid
  @oldBudgets)
DELETE FROM usage_budgets WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
RETURNING 1;

-- name: Keys
-- The expiry is checked again, because an expired key may have been claimed again since.
WITH gone AS MATERIALIZED (
  SELECT k.ctid AS tid
  @oldKeys)
DELETE FROM idempotency_keys WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
   AND expires_at <= (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
RETURNING 1;

-- name: Inbox
WITH gone AS MATERIALIZED (
  SELECT ctid AS tid
  @oldInbox)
DELETE FROM inbox WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
RETURNING 1;

-- name: Deliveries
WITH gone AS MATERIALIZED (
  SELECT ctid AS tid
  @oldDeliveries)
DELETE FROM deliveries WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
RETURNING 1;

-- name: Dismissals
WITH gone AS MATERIALIZED (
  SELECT d.ctid AS tid
  @oldDismissals)
DELETE FROM failure_dismissals WHERE workspace_id = $1 AND ctid IN (SELECT tid FROM gone)
RETURNING 1;
