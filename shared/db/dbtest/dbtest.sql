-- name: AddWorkspace
-- global: a test makes the workspace it will live in
INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, $3);
