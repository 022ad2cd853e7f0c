-- why: only Postgres can tell which plans a connection keeps.
-- name: Plans
-- global: about the connection
SELECT count(*) FROM pg_prepared_statements WHERE from_sql AND statement LIKE '%' || $1 || '%';
