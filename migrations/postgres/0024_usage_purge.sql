-- Usage that is old goes, in batches, through a function as other append-only
-- tables do. A log outlives its reservation, which stays for seven days: by the log a
-- late settlement sees that it was made already.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE FUNCTION lk_purge_usage(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
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
  EXECUTE format('ALTER FUNCTION lk_purge_usage(bigint) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_purge_usage(bigint) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_purge_usage(bigint) TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_purge_usage(bigint);
