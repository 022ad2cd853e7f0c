-- name: LocalGeneration
SELECT session_generation FROM workspaces WHERE id = $1 AND open;

-- name: EndLocalSessions
UPDATE workspaces SET session_generation = session_generation + 1 WHERE id = $1;

-- name: LockWorkspace
-- Serializes changes of members: the second change decides after the first transaction has ended.
UPDATE workspaces SET updated_at = updated_at WHERE id = $1;

-- name: Members
SELECT u.id, u.email, m.name, u.disabled_at, m.role, m.version, m.created_by, m.created_at
  FROM workspace_members m JOIN users u ON u.id = m.user_id
 WHERE m.workspace_id = $1 AND u.email > $2
 ORDER BY u.email
 LIMIT $3;

-- name: MemberByID
SELECT u.id, u.email, m.name, u.disabled_at, m.role, m.version, m.created_by, m.created_at
  FROM workspace_members m JOIN users u ON u.id = m.user_id
 WHERE m.workspace_id = $1 AND m.user_id = $2;

-- name: AddMember
INSERT INTO workspace_members (workspace_id, user_id, name, role, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, lk_now());

-- name: SetRole
-- Another enabled owner must remain.
UPDATE workspace_members SET role = $3, version = version + 1
 WHERE workspace_id = $1 AND user_id = $2
   AND (role <> 'OWNER' OR CAST($3 AS text) = 'OWNER' OR EXISTS (
     SELECT 1 FROM workspace_members o JOIN users u ON u.id = o.user_id
      WHERE o.workspace_id = $1 AND o.role = 'OWNER' AND o.user_id <> $2 AND u.disabled_at IS NULL));

-- name: RemoveMember
-- Another enabled owner must remain.
DELETE FROM workspace_members
 WHERE workspace_id = $1 AND user_id = $2
   AND (role <> 'OWNER' OR EXISTS (
     SELECT 1 FROM workspace_members o JOIN users u ON u.id = o.user_id
      WHERE o.workspace_id = $1 AND o.role = 'OWNER' AND o.user_id <> $2 AND u.disabled_at IS NULL));

-- name: CountOwners
SELECT count(*) FROM workspace_members WHERE workspace_id = $1 AND role = 'OWNER';

-- name: AddKey
INSERT INTO api_keys (workspace_id, id, name, kind, hash, prefix, role, scopes, allowed_origins, persona, created_by, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, lk_now(), $12)
RETURNING id, name, kind, prefix, role, scopes, allowed_origins, persona, created_by, created_at, expires_at, last_used_at, revoked_at;

-- name: Keys
-- Newest first: ids grow with time.
SELECT id, name, kind, prefix, role, scopes, allowed_origins, persona, created_by, created_at, expires_at, last_used_at, revoked_at
  FROM api_keys
 WHERE workspace_id = $1 AND id < $2 AND kind = coalesce($3, kind)
 ORDER BY id DESC
 LIMIT $4;

-- name: KeyByID
SELECT id, name, kind, prefix, role, scopes, allowed_origins, persona, created_by, created_at, expires_at, last_used_at, revoked_at
  FROM api_keys
 WHERE workspace_id = $1 AND id = $2;

-- name: EditSiteKey
UPDATE api_keys SET name = coalesce($3, name), allowed_origins = coalesce($4, allowed_origins), persona = coalesce($5, persona)
 WHERE workspace_id = $1 AND id = $2 AND kind = 'site'
RETURNING id, name, kind, prefix, role, scopes, allowed_origins, persona, created_by, created_at, expires_at, last_used_at, revoked_at;

-- name: RevokeKey
UPDATE api_keys SET revoked_at = coalesce(revoked_at, lk_now())
 WHERE workspace_id = $1 AND id = $2
RETURNING id, name, kind, prefix, role, scopes, allowed_origins, persona, created_by, created_at, expires_at, last_used_at, revoked_at;

-- name: TouchKey
UPDATE api_keys SET last_used_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND (last_used_at IS NULL OR last_used_at <= lk_plus((SELECT lk_now()), -3600000));
