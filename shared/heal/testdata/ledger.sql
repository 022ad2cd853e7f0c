-- name: Touch
UPDATE executions SET updated_at = lk_now(), attempt = attempt + 1 WHERE workspace_id = $1 AND id = $2;
