-- name: AddTask
INSERT INTO agent_tasks (workspace_id, id, title, created_by, created_at, updated_at) VALUES ($1, $2, $3, 'test', lk_now(), lk_now());

-- name: SetStatus
UPDATE agent_tasks SET status = $3, completed_at = CASE WHEN $3 = 'COMPLETED' THEN lk_now() END WHERE workspace_id = $1 AND id = $2;

-- name: Sendings
SELECT status, count(*) FROM outbox WHERE workspace_id = $1 AND topic = 'webhook' GROUP BY status;

-- name: SetSettings
UPDATE workspaces SET settings = $2 WHERE id = $1;

-- name: Tell
INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at) VALUES ($1, $2, $3, 'hb_0mh8c1v2q_a7x2p1k9d4', $4, lk_now());

-- name: DueFirst
-- The row that others wait for.
UPDATE outbox SET due_at = lk_now() WHERE workspace_id = $1 AND status = 'ready' AND attempts > 0;
