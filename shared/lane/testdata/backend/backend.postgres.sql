-- why: only Postgres has backends.

-- name: Backend
-- global: a question about the connection
SELECT pg_backend_pid();
