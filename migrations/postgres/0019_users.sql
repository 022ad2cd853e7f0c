-- Who may come in: people, the workspaces they belong to, and keys of programs.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE users (
  id          uuid PRIMARY KEY,
  email       text COLLATE "C" NOT NULL UNIQUE CHECK (length(email) BETWEEN 3 AND 254 AND email = lower(email)),
  name        text NOT NULL DEFAULT '' CHECK (length(name) <= 255),
  issuer      text COLLATE "C" CHECK (length(issuer) BETWEEN 1 AND 255), -- of the tokens the person comes with
  subject     text COLLATE "C" CHECK (length(subject) BETWEEN 1 AND 255),
  sign_ins    bigint NOT NULL DEFAULT 0, -- counts sign-in links that were used: a link names the count it is good for
  created_at  timestamptz NOT NULL,
  updated_at  timestamptz NOT NULL,
  disabled_at timestamptz,
  UNIQUE (issuer, subject),
  CHECK ((issuer IS NULL) = (subject IS NULL))
);

CREATE TABLE workspace_members (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  user_id      uuid NOT NULL REFERENCES users (id) ON DELETE RESTRICT, -- who has done something is not forgotten
  role         text NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'MEMBER')),
  created_by   text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX workspace_members_user ON workspace_members (user_id);

CREATE TABLE api_keys (
  workspace_id    uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id              uuid NOT NULL,
  name            text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  kind            text NOT NULL CHECK (kind IN ('api', 'site')),
  hash            bytea NOT NULL UNIQUE CHECK (length(hash) = 32), -- SHA-256 of the secret, which is kept nowhere
  prefix          text NOT NULL CHECK (length(prefix) BETWEEN 1 AND 64), -- what is shown of the key
  role            text CHECK (role IN ('OWNER', 'ADMIN', 'MEMBER')),
  scopes          text NOT NULL DEFAULT '[]' CHECK (length(scopes) BETWEEN 2 AND 4096), -- a JSON list
  allowed_origins text NOT NULL DEFAULT '[]' CHECK (length(allowed_origins) BETWEEN 2 AND 8192), -- a JSON list
  created_by      text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at      timestamptz NOT NULL,
  expires_at      timestamptz,
  last_used_at    timestamptz, -- to the hour
  revoked_at      timestamptz,
  PRIMARY KEY (workspace_id, id),
  CHECK ((kind = 'site') = (role IS NULL)),
  CHECK (expires_at > created_at)
);

CALL lk_protect('workspace_members');
CALL lk_protect('api_keys');

-- A person is seen by those who share a workspace, from within it. Who makes or
-- changes one does it by the functions below.
ALTER TABLE users ENABLE ROW LEVEL SECURITY;
ALTER TABLE users FORCE ROW LEVEL SECURITY;
CREATE POLICY fellow ON users FOR SELECT TO lanekeeper_app USING (EXISTS (
  SELECT FROM workspace_members m
   WHERE m.user_id = users.id AND m.workspace_id = nullif(current_setting('app.workspace_id', true), '')::uuid));
REVOKE ALL ON users FROM PUBLIC;
GRANT SELECT ON users TO lanekeeper_app;

-- lk_memberships is where a person belongs, before any workspace is known: one row
-- a workspace, and one without where there is none. Of the ways to name a person
-- one is given.
CREATE FUNCTION lk_memberships(p_user uuid, p_issuer text, p_subject text, p_email text)
RETURNS TABLE (user_id uuid, email text, sign_ins bigint, workspace_id uuid, role text)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT u.id, u.email, u.sign_ins, m.workspace_id, m.role
    FROM users u LEFT JOIN workspace_members m ON m.user_id = u.id
   WHERE (u.id = p_user OR u.issuer = p_issuer AND u.subject = p_subject OR u.email = p_email) AND u.disabled_at IS NULL
   ORDER BY m.workspace_id
   LIMIT 1000
$$;

-- lk_ensure_user is the person with an e-mail address, made unless there is one.
CREATE FUNCTION lk_ensure_user(p_user uuid, p_email text, p_name text) RETURNS uuid LANGUAGE sql SECURITY DEFINER AS $$
  INSERT INTO users AS u (id, email, name, created_at, updated_at) VALUES (p_user, p_email, p_name, lk_now(), lk_now())
  ON CONFLICT (email) DO UPDATE SET email = u.email
  RETURNING id
$$;

-- lk_bind_user ties a person to the subject that an issuer knows them by, once.
CREATE FUNCTION lk_bind_user(p_issuer text, p_subject text, p_email text) RETURNS SETOF uuid LANGUAGE sql SECURITY DEFINER AS $$
  UPDATE users SET issuer = p_issuer, subject = p_subject, updated_at = lk_now()
   WHERE email = p_email AND subject IS NULL AND disabled_at IS NULL
  RETURNING id
$$;

-- lk_sign_in uses a link up: of two who do, one gets a row.
CREATE FUNCTION lk_sign_in(p_user uuid, p_sign_ins bigint) RETURNS SETOF uuid LANGUAGE sql SECURITY DEFINER AS $$
  UPDATE users SET sign_ins = sign_ins + 1
   WHERE id = p_user AND sign_ins = p_sign_ins AND disabled_at IS NULL
  RETURNING id
$$;

-- lk_api_key is whose key it is, while it is good. It is stale when its use was not
-- noted for an hour.
CREATE FUNCTION lk_api_key(p_hash bytea)
RETURNS TABLE (workspace_id uuid, id uuid, kind text, role text, scopes text, allowed_origins text, stale boolean)
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT k.workspace_id, k.id, k.kind, k.role, k.scopes, k.allowed_origins,
         coalesce(k.last_used_at <= lk_plus(lk_now(), -3600000), true)
    FROM api_keys k
   WHERE k.hash = p_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > lk_now())
$$;

-- The search path is fixed with pg_temp at its end: left out it would come first,
-- and a caller's temporary table would stand in for ours.
-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
  EXECUTE format('CREATE POLICY owner ON users TO %I USING (true) WITH CHECK (true)', current_user);
  FOREACH f IN ARRAY ARRAY[
    'lk_memberships(uuid, text, text, text)', 'lk_ensure_user(uuid, text, text)', 'lk_bind_user(text, text, text)',
    'lk_sign_in(uuid, bigint)', 'lk_api_key(bytea)']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO lanekeeper_app', f);
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_api_key(bytea);
DROP FUNCTION lk_sign_in(uuid, bigint);
DROP FUNCTION lk_bind_user(text, text, text);
DROP FUNCTION lk_ensure_user(uuid, text, text);
DROP FUNCTION lk_memberships(uuid, text, text, text);
DROP POLICY fellow ON users;
DROP TABLE api_keys;
DROP TABLE workspace_members;
DROP TABLE users;
