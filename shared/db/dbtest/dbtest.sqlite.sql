-- why: only Postgres can tell which plans a connection keeps.
-- name: Plans
-- global: SQLite keeps no plan by itself
SELECT 0 WHERE $1 IS NOT NULL;
