-- why: only Postgres has backends.

-- name: Backend
-- global: a question about the connection
SELECT 0;
