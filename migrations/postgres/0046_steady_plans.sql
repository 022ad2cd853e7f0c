-- How long a statement takes does not depend on what Postgres estimates about its tables:
-- nothing is compiled before it runs, and a purge reads the rows that it deletes and no more.
-- oldest: 41

-- +goose Up
-- lk_enter opens a transaction of the application: role, workspace and time limits hold for
-- this transaction only, which is clean behind a transaction pooler, and travel in the round
-- trip of its first statement. JIT is off: with an estimate that is too high, compiling a
-- statement takes seconds, and locks are held meanwhile.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_enter(p_workspace uuid, p_skew_us bigint DEFAULT 0) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('app.workspace_id', coalesce(p_workspace::text, ''), true),
          set_config('app.skew_us', nullif(p_skew_us, 0)::text, true),
          set_config('jit', 'off', true),
          set_config('statement_timeout', '20s', true),
          set_config('lock_timeout', '8s', true),
          set_config('idle_in_transaction_session_timeout', '5s', true),
          set_config('role', 'lanekeeper_app', true);
END $$;
-- +goose StatementEnd

-- A purge first finds the key of its last row, in the order of an index. A set of keys would
-- be read again for each row where the planner expects few rows.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_purge_activity(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  ws     uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  before timestamptz := lk_plus(lk_now(), -p_keep_ms);
  last   record;
  n      bigint;
BEGIN
  IF ws IS NULL OR p_keep_ms < 86400000 THEN
    RAISE EXCEPTION 'a purge needs a workspace and a retention of a day at least' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT created_at, id INTO last
    FROM (SELECT created_at, id FROM agent_activity WHERE workspace_id = ws AND created_at < before ORDER BY created_at, id LIMIT 2000) oldest
   ORDER BY created_at DESC, id DESC
   LIMIT 1;
  DELETE FROM agent_activity WHERE workspace_id = ws AND (created_at, id) <= (last.created_at, last.id);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_purge_events(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  ws     uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  before timestamptz := lk_plus(lk_now(), -p_keep_ms);
  last   record;
  n      bigint;
BEGIN
  IF ws IS NULL OR p_keep_ms < 86400000 THEN
    RAISE EXCEPTION 'a purge needs a workspace and a retention of a day at least' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT xid, id INTO last
    FROM (SELECT xid, id FROM events WHERE workspace_id = ws ORDER BY xid, id LIMIT 2000) oldest
   ORDER BY xid DESC, id DESC
   LIMIT 1;
  DELETE FROM events WHERE workspace_id = ws AND (xid, id) <= (last.xid, last.id) AND created_at < before;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_purge_usage(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  ws     uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  before timestamptz := lk_plus(lk_now(), -p_keep_ms);
  last   record;
  n      bigint;
BEGIN
  IF ws IS NULL OR p_keep_ms < 8 * 86400000 THEN
    RAISE EXCEPTION 'a purge of usage needs a workspace and a retention of eight days at least' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT created_at, id INTO last
    FROM (SELECT created_at, id FROM agent_usage_logs WHERE workspace_id = ws AND created_at < before ORDER BY created_at, id LIMIT 2000) oldest
   ORDER BY created_at DESC, id DESC
   LIMIT 1;
  DELETE FROM agent_usage_logs WHERE workspace_id = ws AND (created_at, id) <= (last.created_at, last.id);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_purge_activity(bigint) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lk_purge_events(bigint) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lk_purge_usage(bigint) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_enter(p_workspace uuid, p_skew_us bigint DEFAULT 0) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('app.workspace_id', coalesce(p_workspace::text, ''), true),
          set_config('app.skew_us', nullif(p_skew_us, 0)::text, true),
          set_config('statement_timeout', '20s', true),
          set_config('lock_timeout', '8s', true),
          set_config('idle_in_transaction_session_timeout', '5s', true),
          set_config('role', 'lanekeeper_app', true);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_purge_activity(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  ws uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  n  bigint;
BEGIN
  IF ws IS NULL OR p_keep_ms < 86400000 THEN
    RAISE EXCEPTION 'a purge needs a workspace and a retention of a day at least' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  DELETE FROM agent_activity WHERE workspace_id = ws AND id IN (
    SELECT id FROM agent_activity WHERE workspace_id = ws AND created_at < lk_plus((SELECT lk_now()), -p_keep_ms) ORDER BY created_at LIMIT 2000);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_purge_events(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  ws uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  n  bigint;
BEGIN
  IF ws IS NULL OR p_keep_ms < 86400000 THEN
    RAISE EXCEPTION 'a purge needs a workspace and a retention of a day at least' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  DELETE FROM events WHERE workspace_id = ws AND (xid, id) IN (
    SELECT xid, id FROM (SELECT xid, id, created_at FROM events WHERE workspace_id = ws ORDER BY xid, id LIMIT 2000) AS oldest
     WHERE created_at < lk_plus((SELECT lk_now()), -p_keep_ms));
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_purge_usage(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  ws uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  n  bigint;
BEGIN
  IF ws IS NULL OR p_keep_ms < 8 * 86400000 THEN
    RAISE EXCEPTION 'a purge of usage needs a workspace and a retention of eight days at least' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  DELETE FROM agent_usage_logs WHERE workspace_id = ws AND id IN (
    SELECT id FROM agent_usage_logs WHERE workspace_id = ws AND created_at < lk_plus((SELECT lk_now()), -p_keep_ms) ORDER BY created_at LIMIT 2000);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_purge_activity(bigint) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lk_purge_events(bigint) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lk_purge_usage(bigint) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
