-- why: Postgres has writers side by side, who count one after the other.

-- name: LockHead
SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE;
