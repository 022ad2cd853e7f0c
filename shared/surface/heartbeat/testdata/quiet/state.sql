-- name: Objective
INSERT INTO agent_objectives (workspace_id, id, title, status, created_by, created_at, updated_at)
VALUES ($1, $2, 'x', $3, 'test', lk_now(), lk_now());

-- name: Execution
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, slot, status, timeout_seconds, created_at, updated_at)
VALUES ($1, $2, 'a', $3, 'op_test', $4, $5, $6, $7, lk_plus(lk_now(), $8), lk_plus(lk_now(), $8));

-- name: Row
INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, status, max_attempts, due_at, claim_token, claimed_until,
  expires_at, trace_id, execution_id, created_at, updated_at)
VALUES ($1, $2, 'kick', $3, $4, $5, $6, '{}', $7, 3, lk_plus(lk_now(), $8), $9, lk_plus(lk_now(), $10), lk_plus(lk_now(), $11), 'op_test', $12,
  lk_now(), lk_now());

-- name: Thread
INSERT INTO threads (workspace_id, id, channel, address, active_execution_id, execution_locked_at, parked_by, parked_until, created_at, updated_at)
VALUES ($1, $2, 'log', $3, $4, lk_plus(lk_now(), $5), $6, lk_plus(lk_now(), $7), lk_now(), lk_now());

-- name: Approval
INSERT INTO approvals (workspace_id, id, skill, arguments, digest, execution_id, call_id, agent, surface, trace_id, status, requested_at, expires_at, decided_at)
VALUES ($1, $2, 's', '{}', 'd', $2, '1.1', 'a', 'op', 'op_test', CAST($3 AS text), lk_now(), lk_plus(lk_now(), $4),
  CASE WHEN CAST($3 AS text) <> 'pending' THEN lk_now() END);

-- name: Scheduled
INSERT INTO agent_automations (workspace_id, id, name, skill, cron, time_zone, next_run_at, created_by, created_at, updated_at)
VALUES ($1, $2, $3, 's', '@hourly', 'UTC', lk_plus(lk_now(), $4), 'test', lk_now(), lk_now());

-- name: Waiting
INSERT INTO agent_automations (workspace_id, id, name, skill, event, event_xid, event_id, created_by, created_at, updated_at)
VALUES ($1, $2, $3, 's', $4, $5, $6, 'test', lk_plus(lk_now(), $7), lk_now());

-- name: Event
INSERT INTO events (workspace_id, kind, created_at) VALUES ($1, $2, lk_plus(lk_now(), $3));

-- name: Heal
INSERT INTO heals (workspace_id, id, skill, code, failures, status, probe_at, trace_id, created_at, updated_at)
VALUES ($1, $2, $3, 'ours', 3, $4, lk_plus(lk_now(), $5), 'hb_test', lk_now(), lk_now());

-- name: Switch
INSERT INTO kill_switches (workspace_id, id, scope, target, set_by, set_at, released_by, released_at)
VALUES ($1, $2, $3, $4, 'test', lk_now(), CAST($5 AS text), CASE WHEN CAST($5 AS text) IS NOT NULL THEN lk_now() END);

-- name: Activity
INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, output, trace_id, created_at)
VALUES ($1, $2, 'a', 'op', $3, $4, $5, 'op_test', lk_plus(lk_now(), $6));
