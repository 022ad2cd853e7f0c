-- name: Executions
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, created_at, updated_at)
VALUES ($1, $2, 'operator', $3, 'op_test', $4, $5, lk_now(), lk_now());

-- name: Count
SELECT (SELECT count(*) FROM agent_activity WHERE workspace_id = $1), (SELECT count(*) FROM executions WHERE workspace_id = $1),
       (SELECT count(*) FROM events WHERE workspace_id = $1);

-- name: Happens
INSERT INTO events (workspace_id, kind, created_at) VALUES ($1, 'memory.saved', lk_now());

-- name: StatusOf
SELECT status FROM executions WHERE workspace_id = $1 AND id = $2;
