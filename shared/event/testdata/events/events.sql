-- name: Add
INSERT INTO events (workspace_id, kind, subject, data, created_at) VALUES ($1, $2, $3, '{"a":1}', lk_now());
