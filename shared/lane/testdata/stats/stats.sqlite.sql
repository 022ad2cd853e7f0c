-- why: only Postgres keeps statistics.

-- name: Flush
-- global: about the connection
SELECT 1;
