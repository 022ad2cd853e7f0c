-- A key may do no more than the person who has made it may do now: who is demoted
-- takes their keys along, and who leaves ends them.

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- lk_api_key is whose key it is, while it is good. Its role is the lower of its own
-- and of its creator's in the workspace; what the local admin has made, and the key of
-- a site, which has no role, stay as they are. It is stale when its use was not noted
-- for an hour.
CREATE OR REPLACE FUNCTION lk_api_key(p_hash bytea)
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

-- Who may call it stays; the search path goes with the body.
-- +goose StatementBegin
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION lk_api_key(bytea) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
CREATE OR REPLACE FUNCTION lk_api_key(p_hash bytea)
RETURNS TABLE (workspace_id uuid, id uuid, kind text, role text, scopes text, allowed_origins text, stale boolean)
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT k.workspace_id, k.id, k.kind, k.role, k.scopes, k.allowed_origins,
         coalesce(k.last_used_at <= lk_plus(lk_now(), -3600000), true)
    FROM api_keys k
   WHERE k.hash = p_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > lk_now())
$$;
-- +goose StatementBegin
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION lk_api_key(bytea) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
