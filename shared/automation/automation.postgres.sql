-- why: Postgres has concurrent writers, which must count one after the other.

-- name: LockHead
SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE;
