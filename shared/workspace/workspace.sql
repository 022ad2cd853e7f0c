-- name: Ensure
-- global: workspaces is a global table
INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: All
-- global: the schedule's tick serves every workspace
SELECT id FROM workspaces ORDER BY id LIMIT $1;

-- name: Settings
SELECT settings FROM workspaces WHERE id = $1;
