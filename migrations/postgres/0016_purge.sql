-- What is old goes, in batches. The application adds to these tables and cannot
-- delete from them but through here; a retention under a day is refused.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE FUNCTION lk_purge_activity(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
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
CREATE FUNCTION lk_purge_events(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
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
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_purge_activity(bigint) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lk_purge_events(bigint) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_purge_activity(bigint), lk_purge_events(bigint) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_purge_activity(bigint), lk_purge_events(bigint) TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_purge_events(bigint);
DROP FUNCTION lk_purge_activity(bigint);
