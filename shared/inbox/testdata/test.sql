-- name: Slug
SELECT slug FROM workspaces WHERE id = $1;

-- name: CopySecret
UPDATE webhook_sources SET sealed = (SELECT o.sealed FROM webhook_sources o WHERE o.workspace_id = $1 AND o.name = $2) WHERE workspace_id = $1 AND name = $3;

-- name: ForgetKick
DELETE FROM outbox WHERE workspace_id = $1 AND key = $2;

-- name: ForgetDelivery
DELETE FROM inbox WHERE workspace_id = $1 AND id = $2;
