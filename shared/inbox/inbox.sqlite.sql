-- why: row-level security shows one workspace there, and writers work side by side; here is one writer.

-- name: FindSource
-- global: the address of a webhook says which workspace it is for
SELECT s.workspace_id, s.id, s.kind, s.sealed, CASE WHEN s.old_until > lk_now() THEN s.sealed_old END,
       s.header, s.encoding, s.prefix, s.id_path, s.enabled, lk_now()
  FROM workspaces w JOIN webhook_sources s ON s.workspace_id = w.id
 WHERE w.slug = $1 AND s.name = $2;

-- name: LockHead
SELECT 1 FROM workspaces WHERE id = $1;

-- name: Known
SELECT delivery_id FROM inbox WHERE workspace_id = $1 AND source_id = $2 AND delivery_id IN (SELECT g.value FROM json_each($3) g);
