-- name: ByID
-- The obvious way to follow, which loses the rows of slow transactions.
SELECT id, subject FROM events WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3;
