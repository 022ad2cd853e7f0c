-- name: Session
UPDATE agent_tasks SET session_key = $3 WHERE workspace_id = $1 AND id = $2;

-- name: Silent
UPDATE agents SET status = 'ERROR', health = 'stale' WHERE workspace_id = $1 AND id = $2;

-- name: Budget
INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, consumed, period_start, period_end, created_by, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, lk_plus(lk_now(), -1000), lk_plus(lk_now(), 86400000), 'user:ada', lk_now(), lk_now());

-- name: Used
INSERT INTO agent_usage_logs (workspace_id, id, trace_id, agent, surface, operation, model, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, cost_micro_usd, created_at)
VALUES ($1, $2, 'op_0mh8c1v2q_a7x2p1k9d4', 'flowpilot', 'op', 'model_call', 'm', 900, 20, 0, 0, $3, lk_now());

-- name: Settings
-- global: workspaces is a global table
UPDATE workspaces SET settings = $2 WHERE id = $1;
