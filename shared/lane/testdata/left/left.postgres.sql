-- why: only Postgres has connections.

-- name: Left
-- global: connections of this name, and those of them that are in a transaction
SELECT count(*), count(*) FILTER (WHERE state <> 'idle' AND pid <> pg_backend_pid())
  FROM pg_stat_activity WHERE application_name = $1;
