-- name: Add
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, created_at, updated_at)
VALUES ($1, $2, $3, 'hb', 'hb_test', 'running', lk_now(), lk_now());

-- name: AddChild
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, parent_id, created_at, updated_at)
VALUES ($1, $2, 'child', 'hb', 'hb_test', 'running', $3, lk_now(), lk_now());

-- name: AddOdd
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, input, created_at, updated_at)
VALUES ($1, $2, $3, $4, 'hb_test', 'running', $5, lk_now(), lk_now());

-- name: Rename
UPDATE executions SET agent = $3 WHERE workspace_id = $1 AND id = $2;

-- name: Shuffled
-- Parameters out of order, one of them twice.
UPDATE executions SET error = $4, agent = $3, subject = $3 WHERE workspace_id = $1 AND id = $2
RETURNING error, agent, subject;

-- name: Agents
SELECT agent FROM executions WHERE workspace_id = $1 ORDER BY agent;

-- name: Agent
SELECT agent FROM executions WHERE workspace_id = $1 AND id = $2;

-- name: Lock
UPDATE executions SET updated_at = lk_now() WHERE workspace_id = $1 AND id = $2 RETURNING agent;

-- name: Store
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, subject, error, can_inherit_lock, attempt,
                        prompt_tokens, cost_usd, input, result, created_at, updated_at, ended_at)
VALUES ($1, $2, $3, $4, 'hb_test', 'completed', $5, $6, $7, $8, $9, $10, $11, $12, $13, $13, $14);

-- name: Fetch
SELECT agent, surface, subject, error, can_inherit_lock, attempt, prompt_tokens, cost_usd, input, result, created_at, ended_at
  FROM executions WHERE workspace_id = $1 AND id = $2;

-- name: Count
-- One row and no condition: what One and Affected make of it.
SELECT count(*) FROM executions WHERE workspace_id = $1;

-- name: Now
-- global: the clock is everybody's
SELECT lk_now();

-- name: Later
-- global: the clock is everybody's
SELECT lk_now(), lk_plus(lk_now(), $1);
