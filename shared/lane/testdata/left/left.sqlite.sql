-- why: only Postgres has connections.

-- name: Left
-- global: there is one process
SELECT 0, 0 WHERE $1 <> '';
