-- name: AddWorkspace
-- global: a test makes the workspace it will live in
INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, $3);

-- name: Plans
-- global: about the connection
SELECT count(*) FROM pg_prepared_statements WHERE from_sql AND statement LIKE '%' || $1 || '%';
