-- why: only Postgres keeps statistics.

-- name: Flush
-- global: about the connection; its counters go to where others read them
SELECT pg_stat_force_next_flush();
