-- name: Put
-- The same name gets the new value.
INSERT INTO secrets AS s (workspace_id, name, sealed, key_id, created_by, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, n.at, n.at
  FROM (SELECT lk_now() AS at) n
 WHERE true
ON CONFLICT (workspace_id, name) DO UPDATE SET
  sealed = excluded.sealed, key_id = excluded.key_id, version = s.version + 1, updated_at = lk_now()
RETURNING version, created_at, updated_at;

-- name: Sealed
SELECT sealed FROM secrets WHERE workspace_id = $1 AND name = $2;

-- name: Info
SELECT version, created_by, created_at, updated_at FROM secrets WHERE workspace_id = $1 AND name = $2;

-- name: Make
INSERT INTO secrets (workspace_id, name, sealed, key_id, created_by, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, lk_now(), lk_now())
ON CONFLICT (workspace_id, name) DO NOTHING;

-- name: List
-- The names of our own keys begin with a colon.
SELECT name, version, created_by, created_at, updated_at
  FROM secrets
 WHERE workspace_id = $1 AND name > $2 AND substr(name, 1, 1) <> ':'
 ORDER BY name
 LIMIT $3;

-- name: Delete
DELETE FROM secrets WHERE workspace_id = $1 AND name = $2;

-- name: Stale
SELECT name, sealed FROM secrets
 WHERE workspace_id = $1 AND key_id <> $2 AND name > $3
 ORDER BY name
 LIMIT $4;

-- name: Reseal
-- Only what was read is replaced: nothing is sealed to the same bytes twice.
UPDATE secrets SET sealed = $3, key_id = $4
 WHERE workspace_id = $1 AND name = $2 AND sealed = $5;

-- name: CountStale
SELECT count(*) FROM secrets WHERE workspace_id = $1 AND key_id <> $2;

-- name: Mark
-- A value that changes whenever a secret is stored or deleted.
SELECT count(*), CAST(coalesce(sum(version), 0) AS bigint), max(updated_at) FROM secrets WHERE workspace_id = $1;

-- name: Known
SELECT name, sealed
  FROM secrets
 WHERE workspace_id = $1 AND substr(name, 1, 1) <> ':' AND length(sealed) <= $2
 ORDER BY updated_at DESC, name
 LIMIT $3;
