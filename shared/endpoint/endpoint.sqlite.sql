-- why: on Postgres writers work side by side; SQLite has one writer, so nothing needs a lock there.

-- name: LockHead
SELECT 1 FROM workspaces WHERE id = $1;
