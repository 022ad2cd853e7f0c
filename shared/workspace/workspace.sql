-- name: Ensure
-- global: workspaces is a global table
INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: All
-- global: the schedule's tick serves every workspace
SELECT id FROM workspaces WHERE open ORDER BY id LIMIT $1;

-- name: Settings
SELECT settings FROM workspaces WHERE id = $1;

-- name: Create
INSERT INTO workspaces (id, slug, name, created_by, created_at, updated_at) SELECT $1, $2, $3, $4, n.at, n.at FROM (SELECT lk_now() AS at) n
RETURNING id, slug, name, settings, version, created_at, updated_at;

-- name: Get
SELECT id, slug, name, settings, version, created_at, updated_at FROM workspaces WHERE id = $1 AND open;

-- name: Named
-- global: a principal may be a member of several
SELECT id, slug, name, settings, version, created_at, updated_at FROM workspaces WHERE id = $1;

-- name: Patch
-- Only the version that was read.
UPDATE workspaces SET name = $3, settings = $4, version = version + 1, updated_at = lk_now()
 WHERE id = $1 AND version = $2
RETURNING id, slug, name, settings, version, created_at, updated_at;

-- name: CountMade
-- global: one principal may make workspaces
SELECT count(*) FROM workspaces WHERE created_by = $1;

-- name: AtWork
SELECT EXISTS (SELECT 1 FROM agent_locks WHERE workspace_id = $1 AND token IS NOT NULL AND expires_at > (SELECT lk_now()));

-- name: Delete
-- Deletes all its rows too.
DELETE FROM workspaces WHERE id = $1;

-- name: Close
-- Another workspace may take its slug.
UPDATE workspaces SET open = false, slug = 'deleted-' || id WHERE id = $1;

-- name: CloseLanes
DELETE FROM agent_locks WHERE workspace_id = $1;

-- name: CloseMembers
DELETE FROM workspace_members WHERE workspace_id = $1;

-- name: CloseKeys
DELETE FROM api_keys WHERE workspace_id = $1;
