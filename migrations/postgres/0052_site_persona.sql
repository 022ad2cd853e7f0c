-- A site key names the persona that its visitors talk with.
-- oldest: 41

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- The check is not validated: no row has a value yet, and nobody waits while the table is read.
ALTER TABLE api_keys
  ADD COLUMN persona text,
  ADD CONSTRAINT api_keys_persona_check CHECK (length(persona) BETWEEN 1 AND 63) NOT VALID;

-- lk_api_key also returns the persona. Nothing else is changed. The result's type is another one, so the
-- function is made anew; older builds select its columns by name.
DROP FUNCTION lk_api_key(bytea);
CREATE FUNCTION lk_api_key(p_hash bytea)
RETURNS TABLE (workspace_id uuid, id uuid, kind text, role text, scopes text, allowed_origins text, stale boolean, persona text)
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT k.workspace_id, k.id, k.kind,
         CASE WHEN k.role IS NULL OR k.created_by NOT LIKE 'user:%' THEN k.role
              WHEN 'MEMBER' IN (k.role, m.role) THEN 'MEMBER'
              WHEN 'ADMIN' IN (k.role, m.role) THEN 'ADMIN'
              ELSE k.role END,
         k.scopes, k.allowed_origins, coalesce(k.last_used_at <= lk_plus(lk_now(), -3600000), true), k.persona
    FROM api_keys k
    LEFT JOIN users u ON u.id = CASE WHEN k.created_by LIKE 'user:%' THEN substr(k.created_by, 6)::uuid END AND u.disabled_at IS NULL
    LEFT JOIN workspace_members m ON m.workspace_id = k.workspace_id AND m.user_id = u.id
   WHERE k.hash = p_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > lk_now())
     AND (k.role IS NULL OR k.created_by NOT LIKE 'user:%' OR m.role IS NOT NULL)
$$;
-- +goose StatementBegin
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION lk_api_key(bytea) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lk_api_key(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lk_api_key(bytea) TO lanekeeper_app;

-- +goose Down
DROP FUNCTION lk_api_key(bytea);
CREATE FUNCTION lk_api_key(p_hash bytea)
RETURNS TABLE (workspace_id uuid, id uuid, kind text, role text, scopes text, allowed_origins text, stale boolean)
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT k.workspace_id, k.id, k.kind,
         CASE WHEN k.role IS NULL OR k.created_by NOT LIKE 'user:%' THEN k.role
              WHEN 'MEMBER' IN (k.role, m.role) THEN 'MEMBER'
              WHEN 'ADMIN' IN (k.role, m.role) THEN 'ADMIN'
              ELSE k.role END,
         k.scopes, k.allowed_origins, coalesce(k.last_used_at <= lk_plus(lk_now(), -3600000), true)
    FROM api_keys k
    LEFT JOIN users u ON u.id = CASE WHEN k.created_by LIKE 'user:%' THEN substr(k.created_by, 6)::uuid END AND u.disabled_at IS NULL
    LEFT JOIN workspace_members m ON m.workspace_id = k.workspace_id AND m.user_id = u.id
   WHERE k.hash = p_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > lk_now())
     AND (k.role IS NULL OR k.created_by NOT LIKE 'user:%' OR m.role IS NOT NULL)
$$;
-- +goose StatementBegin
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION lk_api_key(bytea) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lk_api_key(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lk_api_key(bytea) TO lanekeeper_app;
ALTER TABLE api_keys DROP COLUMN persona;
