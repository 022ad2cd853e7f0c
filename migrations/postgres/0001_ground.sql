-- The ground every later migration stands on: the application role, the
-- database's clock, the way into a workspace, and row-level security.

-- +goose Up
SET LOCAL lock_timeout = '10s';

-- +goose StatementBegin
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanekeeper_app') THEN
    CREATE ROLE lanekeeper_app NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
  END IF;
EXCEPTION
  -- another migration in the same cluster was first
  WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- The owner may be the one that functions log in as. Since Postgres 16 who made a
-- role is its member and may still not take it.
DO $$
BEGIN
  IF NOT pg_has_role(current_user, 'lanekeeper_app',
                     CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END) THEN
    EXECUTE format('GRANT lanekeeper_app TO %I', current_user);
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO lanekeeper_app', current_schema());
END $$;
-- +goose StatementEnd

-- The clock of everything that expires. Tests shift it with app.skew_us.
-- Scans write (select lk_now()), so that an index serves them. In PL/pgSQL, whose
-- plan a session keeps: one in SQL was parsed anew by each statement that named it,
-- at the price of a round trip on loopback.
-- +goose StatementBegin
CREATE FUNCTION lk_now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
  skew text := current_setting('app.skew_us', true);
BEGIN
  IF skew IS NULL OR skew = '' THEN
    RETURN clock_timestamp();
  END IF;
  RETURN clock_timestamp() + skew::bigint * interval '1 microsecond';
END $$;
-- +goose StatementEnd

CREATE FUNCTION lk_plus(t timestamptz, ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT t + ms * interval '1 millisecond'
$$;

-- lk_enter opens a transaction of the application: role, workspace and time
-- limits hold for this transaction only, which is clean behind a transaction
-- pooler, and travel in the round trip of its first statement.
-- +goose StatementBegin
CREATE FUNCTION lk_enter(p_workspace uuid, p_skew_us bigint DEFAULT 0) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('app.workspace_id', coalesce(p_workspace::text, ''), true),
          set_config('app.skew_us', nullif(p_skew_us, 0)::text, true),
          set_config('statement_timeout', '20s', true),
          set_config('lock_timeout', '8s', true),
          set_config('idle_in_transaction_session_timeout', '5s', true),
          set_config('role', 'lanekeeper_app', true);
END $$;
-- +goose StatementEnd

-- What a process asks once per connection: which schema is this, and is the
-- application role held by row-level security.
CREATE FUNCTION lk_schema(OUT version bigint, OUT safe boolean) LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT (SELECT coalesce(max(version_id), 0) FROM lk_schema_version WHERE is_applied),
         (SELECT NOT (rolsuper OR rolbypassrls) FROM pg_roles WHERE rolname = 'lanekeeper_app')
$$;

-- lk_protect puts a table under row-level security by workspace and grants the
-- application what it may do: 'rows' reads and writes, 'append' adds and reads.
-- The owner sees all rows, so that backfills in migrations do.
-- +goose StatementBegin
CREATE PROCEDURE lk_protect(p_table regclass, p_kind text DEFAULT 'rows', p_column text DEFAULT 'workspace_id')
LANGUAGE plpgsql AS $$
DECLARE
  own_rows text := format('%I = nullif(current_setting(''app.workspace_id'', true), '''')::uuid', p_column);
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', p_table);
  EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', p_table);
  EXECUTE format('CREATE POLICY tenant ON %s TO lanekeeper_app USING (%s) WITH CHECK (%s)', p_table, own_rows, own_rows);
  EXECUTE format('CREATE POLICY owner ON %s TO %I USING (true) WITH CHECK (true)', p_table, current_user);
  EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', p_table);
  CASE p_kind
    WHEN 'rows' THEN EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO lanekeeper_app', p_table);
    WHEN 'append' THEN EXECUTE format('GRANT SELECT, INSERT ON %s TO lanekeeper_app', p_table);
  END CASE;
END $$;
-- +goose StatementEnd

-- A function that runs with its owner's rights looks in pg_temp last: left out it
-- would come first, and a caller's temporary table would stand in for ours.
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_schema() SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_now(), lk_plus(timestamptz, bigint), lk_enter(uuid, bigint), lk_schema() FROM PUBLIC;
  REVOKE ALL ON PROCEDURE lk_protect(regclass, text, text) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_now(), lk_plus(timestamptz, bigint), lk_enter(uuid, bigint), lk_schema() TO lanekeeper_app;
END $$;
-- +goose StatementEnd

CREATE TABLE workspaces (
  id         uuid PRIMARY KEY,
  slug       text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  settings   jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT lk_now(),
  updated_at timestamptz NOT NULL DEFAULT lk_now()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON workspaces TO lanekeeper_app;

-- +goose Down
DROP TABLE workspaces;
DROP PROCEDURE lk_protect(regclass, text, text);
DROP FUNCTION lk_schema();
DROP FUNCTION lk_enter(uuid, bigint);
DROP FUNCTION lk_plus(timestamptz, bigint);
DROP FUNCTION lk_now();
