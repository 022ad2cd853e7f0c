-- name: Tell
INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
VALUES ($1, $2, $3, $4, $5, lk_now());
