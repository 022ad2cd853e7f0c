-- name: Executions
SELECT id, coalesce(subject, ''), coalesce(slot, ''), status, attempt, trace_id, coalesce(CAST(parent_id AS text), ''), coalesce(error, ''),
       prompt_tokens + completion_tokens
  FROM executions WHERE workspace_id = $1
 ORDER BY created_at, id;

-- name: Story
SELECT skill_name, status, coalesce(error_message, ''), coalesce(CAST(execution_id AS text), '')
  FROM agent_activity
 WHERE workspace_id = $1 AND conversation_id = $2
 ORDER BY created_at, id;

-- name: Attempts
UPDATE executions SET attempt = $3, cuts = $3, parks = $3 WHERE workspace_id = $1 AND id = $2;

-- name: FutureInput
UPDATE executions SET input = '"of a format of the future"' WHERE workspace_id = $1 AND id = $2;

-- name: FutureStep
INSERT INTO execution_steps (workspace_id, execution_id, seq, step, kind, status, format, trust, body, created_at)
VALUES ($1, $2, 900, 90, 'note', 'succeeded', 99, 'operator', '{}', lk_now());

-- name: Served
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, slot, status, created_at, updated_at, ended_at)
VALUES ($1, $2, 'flowpilot', 'hb', 'hb_0mh8c1v2q_a7x2p1k9d4', 'heartbeat', $3, 'completed', lk_now(), lk_now(), lk_now());

-- name: Settings
-- global: workspaces is a global table
UPDATE workspaces SET settings = $2 WHERE id = $1;

-- name: Rows
SELECT 'agent_activity', count(*) FROM agent_activity WHERE workspace_id = $1
UNION ALL SELECT 'executions', count(*) FROM executions WHERE workspace_id = $1
UNION ALL SELECT 'execution_steps', count(*) FROM execution_steps WHERE workspace_id = $1
UNION ALL SELECT 'events', count(*) FROM events WHERE workspace_id = $1
UNION ALL SELECT 'outbox', count(*) FROM outbox WHERE workspace_id = $1
UNION ALL SELECT 'agent_usage_logs', count(*) FROM agent_usage_logs WHERE workspace_id = $1
UNION ALL SELECT 'usage_reservations', count(*) FROM usage_reservations WHERE workspace_id = $1
UNION ALL SELECT 'heals', count(*) FROM heals WHERE workspace_id = $1
UNION ALL SELECT 'approvals', count(*) FROM approvals WHERE workspace_id = $1
UNION ALL SELECT 'agent_memory', count(*) FROM agent_memory WHERE workspace_id = $1
UNION ALL SELECT 'agent_locks', count(*) FROM agent_locks WHERE workspace_id = $1;

-- name: Unsettled
SELECT count(*) FROM events WHERE workspace_id = $1 AND xid >= lk_settled();

-- name: BreakSchedule
UPDATE agent_automations SET time_zone = 'Mars/Olympus' WHERE workspace_id = $1 AND id = $2;

-- name: PastDelivery
-- A webhook that was received $3 days ago, and worked off.
INSERT INTO inbox (workspace_id, id, source_id, source, delivery_id, event, headers, body, digest, status, trace_id, received_at, updated_at, ended_at)
VALUES ($1, $2, $2, 'shop', 'd', 'paid', '{}', $4, $5, 'done', 'wh_test', lk_plus(lk_now(), 0 - CAST($3 AS bigint) * 86400000),
  lk_plus(lk_now(), 0 - CAST($3 AS bigint) * 86400000), lk_now());

-- name: Deliveries
SELECT count(*) FROM inbox WHERE workspace_id = $1;
