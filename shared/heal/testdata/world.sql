-- name: Executions
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, created_at, updated_at)
VALUES ($1, $2, 'operator', $3, 'op_test', $4, $5, lk_now(), lk_now());

-- name: StatusOf
SELECT status FROM executions WHERE workspace_id = $1 AND id = $2;
