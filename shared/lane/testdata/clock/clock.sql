-- name: Now
SELECT lk_now() WHERE CAST($1 AS text) IS NOT NULL;

-- name: SetFence
UPDATE agent_locks SET fence = $3 WHERE workspace_id = $1 AND lane = $2;
