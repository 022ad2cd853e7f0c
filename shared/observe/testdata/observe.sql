-- name: Task
INSERT INTO agent_tasks (workspace_id, id, title, status, retry_count, failed_at, completed_at, created_by, created_at, updated_at)
VALUES ($1, $2, 'x', $3, $4, lk_plus(lk_now(), 0 - CAST($5 AS bigint)), lk_now(), 'test', lk_now(), lk_now());

-- name: Agent
INSERT INTO agents (workspace_id, id, name, status, health, terminated_at, created_by, created_at, updated_at)
VALUES ($1, $2, 'x', $3, $4, CASE WHEN $3 = 'TERMINATED' THEN lk_now() END, 'test', lk_now(), lk_now());

-- name: Due
INSERT INTO outbox (workspace_id, id, kind, topic, key, payload, status, max_attempts, due_at, trace_id, created_at, updated_at)
VALUES ($1, $2, 'kick', 'x', 'k' || CAST(CAST($3 AS bigint) AS text), '{}', 'ready', 1, lk_plus(lk_now(), CAST($3 AS bigint)), 'op_test', lk_now(), lk_now());
