-- name: Lately
SELECT id, seq, role, body, execution_id, key, data, created_at
  FROM messages
 WHERE workspace_id = $1 AND thread_id = $2
 ORDER BY seq DESC
 LIMIT $3;

-- name: Forget
DELETE FROM messages WHERE workspace_id = $1 AND thread_id = $2 AND execution_id = $3;
