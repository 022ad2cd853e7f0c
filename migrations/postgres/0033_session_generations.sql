-- A session's cookie names the generation that it belongs to. Signing out raises that of
-- the person, or of the installation's local admin, and so ends all older sessions.

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE users ADD COLUMN session_generation bigint NOT NULL DEFAULT 0;
ALTER TABLE workspaces ADD COLUMN session_generation bigint NOT NULL DEFAULT 0; -- of the workspace's local admin

-- lk_memberships tells a person's session generation too. It returns a column more, which
-- CREATE OR REPLACE refuses.
DROP FUNCTION lk_memberships(uuid, text, text, text);
CREATE FUNCTION lk_memberships(p_user uuid, p_issuer text, p_subject text, p_email text)
RETURNS TABLE (user_id uuid, email text, sign_ins bigint, session_generation bigint, workspace_id uuid, role text)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT u.id, u.email, u.sign_ins, u.session_generation, m.workspace_id, m.role
    FROM users u LEFT JOIN workspace_members m ON m.user_id = u.id
   WHERE (u.id = p_user OR u.issuer = p_issuer AND u.subject = p_subject OR u.email = p_email) AND u.disabled_at IS NULL
   ORDER BY m.created_at, m.workspace_id
   LIMIT 1000
$$;

-- lk_end_sessions ends the sessions of a person.
CREATE FUNCTION lk_end_sessions(p_user uuid) RETURNS void LANGUAGE sql SECURITY DEFINER AS $$
  UPDATE users SET session_generation = session_generation + 1 WHERE id = p_user
$$;

-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['lk_memberships(uuid, text, text, text)', 'lk_end_sessions(uuid)']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO lanekeeper_app', f);
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_end_sessions(uuid);
DROP FUNCTION lk_memberships(uuid, text, text, text);
CREATE FUNCTION lk_memberships(p_user uuid, p_issuer text, p_subject text, p_email text)
RETURNS TABLE (user_id uuid, email text, sign_ins bigint, workspace_id uuid, role text)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT u.id, u.email, u.sign_ins, m.workspace_id, m.role
    FROM users u LEFT JOIN workspace_members m ON m.user_id = u.id
   WHERE (u.id = p_user OR u.issuer = p_issuer AND u.subject = p_subject OR u.email = p_email) AND u.disabled_at IS NULL
   ORDER BY m.created_at, m.workspace_id
   LIMIT 1000
$$;
-- +goose StatementBegin
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION lk_memberships(uuid, text, text, text) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_memberships(uuid, text, text, text) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_memberships(uuid, text, text, text) TO lanekeeper_app;
END $$;
-- +goose StatementEnd
ALTER TABLE workspaces DROP COLUMN session_generation;
ALTER TABLE users DROP COLUMN session_generation;
