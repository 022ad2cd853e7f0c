-- name: Executions
-- Children are deleted before their parents, which a later round deletes.
WITH gone AS MATERIALIZED (
  SELECT e.id FROM executions e
   WHERE e.workspace_id = $1 AND e.surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk') AND e.status NOT IN ('running', 'waiting', 'parked')
     AND e.created_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND coalesce(e.ended_at, e.updated_at) < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND NOT EXISTS (SELECT 1 FROM executions c WHERE c.workspace_id = $1 AND c.parent_id = e.id)
   LIMIT 2000)
DELETE FROM executions WHERE workspace_id = $1 AND id IN (SELECT id FROM gone)
RETURNING 1;

-- name: Outbox
-- Uncertain rows stay: a person must decide. Of a webhook its deliveries tell.
WITH gone AS MATERIALIZED (
  SELECT id FROM outbox
   WHERE workspace_id = $1 AND (status IN ('sent', 'failed', 'superseded', 'expired', 'dead') OR status = 'uncertain' AND kind = 'webhook') AND created_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND updated_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000)
DELETE FROM outbox WHERE workspace_id = $1 AND id IN (SELECT id FROM gone)
RETURNING 1;

-- name: Approvals
WITH gone AS MATERIALIZED (
  SELECT id FROM approvals
   WHERE workspace_id = $1 AND status NOT IN ('pending', 'approved') AND requested_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND coalesce(executed_at, decided_at) < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000)
DELETE FROM approvals WHERE workspace_id = $1 AND id IN (SELECT id FROM gone)
RETURNING 1;

-- name: Heals
-- Those that can't be undone any more.
WITH gone AS MATERIALIZED (
  SELECT id FROM heals
   WHERE workspace_id = $1 AND status NOT IN ('active', 'probing') AND updated_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000)
DELETE FROM heals WHERE workspace_id = $1 AND id IN (SELECT id FROM gone)
RETURNING 1;

-- name: Memories
-- $2 milliseconds after their expiry. No query finds them any more.
WITH gone AS MATERIALIZED (
  SELECT id FROM agent_memory
   WHERE workspace_id = $1 AND expires_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000)
DELETE FROM agent_memory WHERE workspace_id = $1 AND id IN (SELECT id FROM gone)
RETURNING 1;

-- name: Budgets
-- Daily budgets that Lanekeeper created itself.
WITH gone AS MATERIALIZED (
  SELECT id FROM usage_budgets
   WHERE workspace_id = $1 AND created_by = 'lanekeeper' AND period_end < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000)
DELETE FROM usage_budgets WHERE workspace_id = $1 AND id IN (SELECT id FROM gone)
RETURNING 1;

-- name: Keys
-- The expiry is checked again in the deletion, because an expired key may have been claimed again
-- since.
WITH lapsed AS MATERIALIZED (
  SELECT k.route, k.principal, k.key_hash FROM idempotency_keys k
   WHERE k.workspace_id = $1 AND k.expires_at <= (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint))) ORDER BY k.expires_at LIMIT 2000)
DELETE FROM idempotency_keys WHERE workspace_id = $1 AND expires_at <= (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   AND (route, principal, key_hash) IN (SELECT route, principal, key_hash FROM lapsed)
RETURNING 1;

-- name: Inbox
-- Deliveries that have ended.
WITH gone AS MATERIALIZED (
  SELECT id FROM inbox
   WHERE workspace_id = $1 AND status IN ('done', 'parked') AND received_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND updated_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000)
DELETE FROM inbox WHERE workspace_id = $1 AND id IN (SELECT id FROM gone)
RETURNING 1;

-- name: Deliveries
-- Attempts at outbound webhooks.
WITH gone AS MATERIALIZED (
  SELECT id FROM deliveries
   WHERE workspace_id = $1 AND created_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   ORDER BY created_at
   LIMIT 2000)
DELETE FROM deliveries WHERE workspace_id = $1 AND id IN (SELECT id FROM gone)
RETURNING 1;
