-- Lanes: one row each, which stays, and the functions that decide. The Go code
-- and clients in other languages share these definitions.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE agent_locks (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  lane         text NOT NULL CHECK (length(lane) BETWEEN 1 AND 200),
  locked_by    text NOT NULL CHECK (length(locked_by) BETWEEN 1 AND 255),
  token        uuid,             -- the proof of ownership; null once released
  fence        bigint NOT NULL,  -- only grows
  ttl_ms       bigint NOT NULL,
  locked_at    timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  wanted_at    timestamptz,      -- somebody waits for this hold
  wanted_by    text,
  execution_id uuid,
  trace_id     text,
  PRIMARY KEY (workspace_id, lane)
) WITH (fillfactor = 50);        -- room for HOT updates; no index on expires_at, which would prevent them

-- lk_lane_acquire takes a lane when nobody else lives on it. A refusal reads and
-- writes nothing. The same token again is the retry of a caller who lost the
-- answer: it keeps its fence. A lane that another is about to give up or to prove
-- is waited for, and then looked at anew.
-- +goose StatementBegin
CREATE FUNCTION lk_lane_acquire(
  p_workspace uuid, p_lane text, p_token uuid, p_locked_by text, p_ttl_ms bigint, p_execution uuid, p_trace text
) RETURNS TABLE (
  acquired boolean, lane text, locked_by text, fence bigint, ttl_ms bigint, locked_at timestamptz, expires_at timestamptz,
  wanted_at timestamptz, wanted_by text, execution_id uuid, trace_id text, as_of timestamptz
) LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
  IF p_ttl_ms IS NULL OR p_ttl_ms < 1 OR p_ttl_ms > 3600000 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a lane is held for 1 ms to 1 h';
  END IF;
  IF p_token IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a lane is held by a token';
  END IF;
  LOOP -- once, unless another is faster
    RETURN QUERY
    SELECT false, l.lane, l.locked_by, l.fence, l.ttl_ms, l.locked_at, l.expires_at,
           l.wanted_at, l.wanted_by, l.execution_id, l.trace_id, lk_now()
      FROM agent_locks l
     WHERE l.workspace_id = p_workspace AND l.lane = p_lane AND l.token <> p_token AND l.expires_at > lk_now();
    EXIT WHEN FOUND;

    RETURN QUERY
    UPDATE agent_locks l SET
      locked_by = p_locked_by, token = p_token, ttl_ms = p_ttl_ms,
      fence = CASE WHEN l.token = p_token THEN l.fence
                   ELSE greatest(l.fence + 1, (extract(epoch FROM lk_now()) * 1000)::bigint) END,
      locked_at = CASE WHEN l.token = p_token THEN l.locked_at ELSE lk_now() END,
      expires_at = lk_plus(lk_now(), p_ttl_ms),
      wanted_at = CASE WHEN l.token = p_token THEN l.wanted_at END,
      wanted_by = CASE WHEN l.token = p_token THEN l.wanted_by END,
      execution_id = p_execution, trace_id = p_trace
     WHERE l.workspace_id = p_workspace AND l.lane = p_lane
       AND (l.token IS NULL OR l.token = p_token OR l.expires_at <= lk_now())
    RETURNING true, l.lane, l.locked_by, l.fence, l.ttl_ms, l.locked_at, l.expires_at,
              l.wanted_at, l.wanted_by, l.execution_id, l.trace_id, lk_now();
    EXIT WHEN FOUND;

    RETURN QUERY
    INSERT INTO agent_locks AS l
      (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at, execution_id, trace_id)
    VALUES (p_workspace, p_lane, p_locked_by, p_token, (extract(epoch FROM lk_now()) * 1000)::bigint, p_ttl_ms,
            lk_now(), lk_plus(lk_now(), p_ttl_ms), p_execution, p_trace)
    ON CONFLICT DO NOTHING
    RETURNING true, l.lane, l.locked_by, l.fence, l.ttl_ms, l.locked_at, l.expires_at,
              l.wanted_at, l.wanted_by, l.execution_id, l.trace_id, lk_now();
    EXIT WHEN FOUND;
  END LOOP;
END $$;
-- +goose StatementEnd

-- lk_lane_renew proves a hold and extends it. It locks the row, so that a
-- successor waits until the transaction that proved it has ended. A hold that is
-- over raises no_data_found, which undoes the transaction.
-- +goose StatementBegin
CREATE FUNCTION lk_lane_renew(p_workspace uuid, p_lane text, p_token uuid, p_ttl_ms bigint)
RETURNS agent_locks LANGUAGE plpgsql AS $$
DECLARE held agent_locks;
BEGIN
  IF p_ttl_ms IS NULL OR p_ttl_ms < 1 OR p_ttl_ms > 3600000 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a lane is held for 1 ms to 1 h';
  END IF;
  UPDATE agent_locks l SET expires_at = lk_plus(lk_now(), p_ttl_ms), ttl_ms = p_ttl_ms
   WHERE l.workspace_id = p_workspace AND l.lane = p_lane AND l.token = p_token AND l.expires_at > lk_now()
  RETURNING l.* INTO held;
  IF NOT FOUND THEN
    RAISE no_data_found USING MESSAGE = 'the hold is over';
  END IF;
  RETURN held;
END $$;
-- +goose StatementEnd

-- lk_lane_release ends a hold; releasing what is no longer ours raises
-- no_data_found and changes nothing.
-- +goose StatementBegin
CREATE FUNCTION lk_lane_release(p_workspace uuid, p_lane text, p_token uuid)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE agent_locks l SET expires_at = lk_now(), token = NULL, wanted_at = NULL, wanted_by = NULL
   WHERE l.workspace_id = p_workspace AND l.lane = p_lane AND l.token = p_token AND l.expires_at > lk_now();
  IF NOT FOUND THEN
    RAISE no_data_found USING MESSAGE = 'the hold is over';
  END IF;
END $$;
-- +goose StatementEnd

-- The protocol for every language. The workspace is app.workspace_id when set,
-- else the default one.
CREATE FUNCTION lk_workspace() RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT coalesce(nullif(current_setting('app.workspace_id', true), ''), '00000000-0000-7000-8000-000000000001')::uuid
$$;

-- +goose StatementBegin
CREATE FUNCTION acquire_agent_lane(
  p_lane text, p_locked_by text, p_ttl_seconds integer DEFAULT 300,
  OUT acquired boolean, OUT token uuid, OUT fence bigint, OUT locked_by text, OUT expires_at timestamptz
) LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  mine uuid := gen_random_uuid();
  got  record;
BEGIN
  SELECT a.* INTO got
    FROM lk_lane_acquire(lk_workspace(), p_lane, mine, p_locked_by, p_ttl_seconds * 1000::bigint, NULL, NULL) a;
  acquired := got.acquired;
  token := CASE WHEN got.acquired THEN mine END; -- another's token is another's secret
  fence := got.fence;
  locked_by := got.locked_by;
  expires_at := got.expires_at;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION try_acquire_agent_lock(p_lane text, p_locked_by text, p_ttl_seconds integer DEFAULT 300)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  RETURN (SELECT a.acquired FROM acquire_agent_lane(p_lane, p_locked_by, p_ttl_seconds) a);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION renew_agent_lane(p_lane text, p_token uuid, p_ttl_seconds integer DEFAULT 300)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM lk_lane_renew(lk_workspace(), p_lane, p_token, p_ttl_seconds * 1000::bigint);
  RETURN true;
EXCEPTION WHEN no_data_found THEN
  RETURN false;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION release_agent_lane(p_lane text, p_token uuid)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM lk_lane_release(lk_workspace(), p_lane, p_token);
  RETURN true;
EXCEPTION WHEN no_data_found THEN
  RETURN false;
END $$;
-- +goose StatementEnd

CALL lk_protect('agent_locks');

-- The search path is fixed with pg_temp at its end: left out it would come first,
-- and a caller's temporary table would stand in for ours.
-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY[
    'lk_lane_acquire(uuid, text, uuid, text, bigint, uuid, text)', 'lk_lane_renew(uuid, text, uuid, bigint)',
    'lk_lane_release(uuid, text, uuid)', 'lk_workspace()', 'acquire_agent_lane(text, text, integer)',
    'try_acquire_agent_lock(text, text, integer)', 'renew_agent_lane(text, uuid, integer)',
    'release_agent_lane(text, uuid)']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO lanekeeper_app', f);
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION release_agent_lane(text, uuid);
DROP FUNCTION renew_agent_lane(text, uuid, integer);
DROP FUNCTION try_acquire_agent_lock(text, text, integer);
DROP FUNCTION acquire_agent_lane(text, text, integer);
DROP FUNCTION lk_workspace();
DROP FUNCTION lk_lane_release(uuid, text, uuid);
DROP FUNCTION lk_lane_renew(uuid, text, uuid, bigint);
DROP FUNCTION lk_lane_acquire(uuid, text, uuid, text, bigint, uuid, text);
DROP TABLE agent_locks;
