-- why: row-level security shows one workspace, so that only a function of the owner's finds a source by its address; and writers work side by side.

-- name: FindSource
-- global: the address of a webhook says which workspace it is for
SELECT workspace_id, id, kind, sealed, sealed_old, header, encoding, prefix, id_path, enabled, lk_now() FROM lk_webhook_source($1, $2);

-- name: LockHead
SELECT 1 FROM workspaces WHERE id = $1 FOR UPDATE;

-- name: Known
SELECT i.delivery_id
  FROM jsonb_array_elements_text(CAST($3 AS jsonb)) g (id)
  JOIN inbox i ON i.workspace_id = $1 AND i.source_id = $2 AND i.delivery_id = g.id;
