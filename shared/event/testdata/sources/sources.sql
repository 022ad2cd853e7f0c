-- name: AddActivity
INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, input, output, error_message, duration_ms, trace_id, execution_id,
  model, token_usage, cost_usd, created_at)
VALUES ($1, $2, 'ada', 'hb', 'look', 'error', '{"in":"SECRET"}', '{"out":"SECRET","summary":"It looked"}', 'SECRET', 12, 'trace', $2,
  'm', '{"total_tokens":7}', 0.041, lk_now());

-- name: AddBareActivity
INSERT INTO agent_activity (workspace_id, id, agent, surface, status, trace_id, created_at)
VALUES ($1, $2, 'ada', 'op', 'success', 'trace', lk_now());

-- name: AddExecution
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, input, created_at, updated_at)
VALUES ($1, $2, 'ada', 'hb', 'trace', 'objective:1', 'running', '{"in":"SECRET"}', lk_now(), lk_now());

-- name: AddEnded
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, input, created_at, updated_at, ended_at)
VALUES ($1, $2, 'ada', 'hb', 'trace', 'heartbeat', 'completed', '{}', lk_now(), lk_now(), lk_now());

-- name: SetExecution
UPDATE executions SET status = $3, error = 'SECRET', updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: SpendExecution
UPDATE executions SET prompt_tokens = prompt_tokens + 1, updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: AddApproval
INSERT INTO approvals (workspace_id, id, skill, arguments, digest, why, execution_id, call_id, agent, surface, trace_id, requested_at, expires_at)
VALUES ($1, $2, 'pay', '{"in":"SECRET"}', 'digest', 'SECRET', $2, '1.1', 'ada', 'hb', 'trace', lk_now(), lk_now());

-- name: SetApproval
UPDATE approvals SET status = $3, reason = 'SECRET', decided_at = lk_now(), decided_by = 'user:bob',
       executed_at = CASE WHEN $3 = 'executed' THEN lk_now() END
 WHERE workspace_id = $1 AND id = $2;

-- name: AddSkill
INSERT INTO agent_skills (workspace_id, id, name, kind, enabled, disabled_by, disabled_at, created_by, created_at, updated_at)
VALUES ($1, $2, 'look', 'builtin', $3, $4, CASE WHEN CAST($4 AS text) IS NULL THEN NULL ELSE lk_now() END, 'bob', lk_now(), lk_now());

-- name: SetSkill
UPDATE agent_skills SET enabled = $3, disabled_by = $4, disabled_at = CASE WHEN CAST($4 AS text) IS NULL THEN NULL ELSE lk_now() END
 WHERE workspace_id = $1 AND id = $2;

-- name: AddAutomation
INSERT INTO agent_automations (workspace_id, id, name, skill, cron, time_zone, created_by, created_at, updated_at)
VALUES ($1, $2, 'nightly', 'look', '0 0 * * *', 'UTC', 'bob', lk_now(), lk_now());

-- name: SetAutomation
UPDATE agent_automations SET enabled = $3, disabled_by = $4, disabled_at = CASE WHEN CAST($4 AS text) IS NULL THEN NULL ELSE lk_now() END
 WHERE workspace_id = $1 AND id = $2;

-- name: AddObjective
INSERT INTO agent_objectives (workspace_id, id, title, description, created_by, created_at, updated_at)
VALUES ($1, $2, 'Grow', 'SECRET', 'bob', lk_now(), lk_now());

-- name: SetObjective
UPDATE agent_objectives SET status = $3, status_reason = 'SECRET', updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: SaveMemory
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, trace_id, created_at, updated_at)
VALUES ($1, $2, 'ada', 'fact', 'SECRET', 'hash', 'trace', lk_now(), lk_now())
ON CONFLICT (workspace_id, agent, content_hash) DO UPDATE SET importance = 9;

-- name: ForgetMemory
DELETE FROM agent_memory WHERE workspace_id = $1 AND id = $2;

-- name: DeleteWorkspace
DELETE FROM workspaces WHERE id = $1;

-- name: AddStep
INSERT INTO execution_steps (workspace_id, execution_id, seq, step, kind, status, call_id, body, created_at)
VALUES ($1, $2, 1, 3, $3, 'succeeded', '3.1', '{"skill":"look","result":"SECRET"}', lk_now());

-- name: AddThread
INSERT INTO threads (workspace_id, id, channel, address, created_at, updated_at) VALUES ($1, $2, 'log', 'SECRET', lk_now(), lk_now());

-- name: LockThread
UPDATE threads SET active_execution_id = CASE WHEN $3 THEN id END, execution_locked_at = CASE WHEN $3 THEN lk_now() END
 WHERE workspace_id = $1 AND id = $2;

-- name: AddMessage
INSERT INTO messages (workspace_id, id, thread_id, seq, role, body, created_at) VALUES ($1, $2, $2, 1, 'user', 'SECRET', lk_now());

-- name: AddOutgoing
INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, status, max_attempts, due_at, trace_id, created_at, updated_at)
VALUES ($1, $2, 'message', 'log', 'key', 'thread:one', 1, '{"body":"SECRET"}', $3, 3, lk_now(), 'trace', lk_now(), lk_now());

-- name: SetOutgoing
UPDATE outbox SET status = $3, last_error = 'SECRET', updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: AddBudget
INSERT INTO usage_budgets (workspace_id, id, scope, allocated, period_start, period_end, created_by, created_at, updated_at)
VALUES ($1, $2, 'global', 100, lk_now(), lk_plus(lk_now(), 1000), 'ann', lk_now(), lk_now());

-- name: SpendBudget
UPDATE usage_budgets SET consumed = consumed + 1, updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: SetBudget
UPDATE usage_budgets SET allocated = 200, updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: AddHeal
INSERT INTO heals (workspace_id, id, skill, code, failures, probe_at, trace_id, created_at, updated_at)
VALUES ($1, $2, 'look', 'theirs', 3, lk_now(), 'trace', lk_now(), lk_now());

-- name: SetHeal
UPDATE heals SET status = $3, updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: AddSwitch
INSERT INTO kill_switches (workspace_id, id, scope, target, reason, set_by, set_at) VALUES ($1, $2, 'skill', 'look', 'SECRET', 'ann', lk_now());

-- name: ReleaseSwitch
UPDATE kill_switches SET released_by = 'bob', released_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: AddLane
INSERT INTO agent_locks (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at, trace_id)
VALUES ($1, CAST($2 AS text), 'ann', '0198c0de-0000-7000-8000-000000000001', 1, 1000, lk_now(), lk_now(), 'trace');

-- name: WantLane
UPDATE agent_locks SET wanted_at = lk_now(), wanted_by = 'bob' WHERE workspace_id = $1 AND lane = CAST($2 AS text);
