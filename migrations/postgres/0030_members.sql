-- A member has the name that their workspace has given them: one person's name is not
-- told from workspace to workspace. A change of a role counts versions. Who has made a
-- workspace is known, for nobody makes them without bound. And a person's workspaces
-- come in the order in which they have joined them: the first is theirs where a request
-- names none, whoever makes them a member of others.

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE workspace_members ADD COLUMN name text NOT NULL DEFAULT '' CHECK (length(name) <= 255);
ALTER TABLE workspace_members ADD COLUMN version integer NOT NULL DEFAULT 1 CHECK (version > 0);
UPDATE workspace_members m SET name = u.name FROM users u WHERE u.id = m.user_id;
ALTER TABLE workspaces ADD COLUMN created_by text CHECK (length(created_by) BETWEEN 1 AND 255); -- null: nobody knows
CREATE INDEX workspaces_made ON workspaces (created_by);

-- lk_memberships is where a person belongs, before any workspace is known: one row
-- a workspace, the oldest membership first, and one without where there is none. Of the
-- ways to name a person one is given.
CREATE OR REPLACE FUNCTION lk_memberships(p_user uuid, p_issuer text, p_subject text, p_email text)
RETURNS TABLE (user_id uuid, email text, sign_ins bigint, workspace_id uuid, role text)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT u.id, u.email, u.sign_ins, m.workspace_id, m.role
    FROM users u LEFT JOIN workspace_members m ON m.user_id = u.id
   WHERE (u.id = p_user OR u.issuer = p_issuer AND u.subject = p_subject OR u.email = p_email) AND u.disabled_at IS NULL
   ORDER BY m.created_at, m.workspace_id
   LIMIT 1000
$$;

-- Who may call it stays; the search path goes with the body.
-- +goose StatementBegin
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION lk_memberships(uuid, text, text, text) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
CREATE OR REPLACE FUNCTION lk_memberships(p_user uuid, p_issuer text, p_subject text, p_email text)
RETURNS TABLE (user_id uuid, email text, sign_ins bigint, workspace_id uuid, role text)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT u.id, u.email, u.sign_ins, m.workspace_id, m.role
    FROM users u LEFT JOIN workspace_members m ON m.user_id = u.id
   WHERE (u.id = p_user OR u.issuer = p_issuer AND u.subject = p_subject OR u.email = p_email) AND u.disabled_at IS NULL
   ORDER BY m.workspace_id
   LIMIT 1000
$$;
-- +goose StatementBegin
DO $$ BEGIN
  EXECUTE format('ALTER FUNCTION lk_memberships(uuid, text, text, text) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
DROP INDEX workspaces_made;
ALTER TABLE workspaces DROP COLUMN created_by;
ALTER TABLE workspace_members DROP COLUMN version;
ALTER TABLE workspace_members DROP COLUMN name;
