-- why: SQLite has one writer, so nothing needs a lock.

-- name: LockHead
SELECT 1 FROM workspaces WHERE id = $1;
