-- The log of a task goes when the task has been over for as long as activities are kept, in batches,
-- through a function as other append-only tables do; and a cycle finds old heartbeats by their time.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE INDEX agent_heartbeats_oldest ON agent_heartbeats (workspace_id, created_at);

-- lk_purge_task_logs goes by the ids of rows, which grow with time. Those of conflicts do not: they go
-- with other rows of their task.
-- +goose StatementBegin
CREATE FUNCTION lk_purge_task_logs(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  ws     uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  before timestamptz := lk_plus(lk_now(), -p_keep_ms);
  beyond uuid := CAST(lpad(to_hex(CAST(floor(extract(epoch FROM before) * 1000) AS bigint)), 12, '0') || '00000000000000000000' AS uuid);
  old    uuid[];
  of     uuid[];
  n      bigint;
BEGIN
  IF ws IS NULL OR p_keep_ms < 86400000 THEN
    RAISE EXCEPTION 'a purge needs a workspace and a retention of a day at least' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT array_agg(o.id), array_agg(DISTINCT o.task_id) INTO old, of
    FROM (SELECT l.id, l.task_id
            FROM agent_task_logs l
            JOIN agent_tasks t ON t.workspace_id = l.workspace_id AND t.id = l.task_id
           WHERE l.workspace_id = ws AND l.id < beyond AND l.created_at < before
             AND t.updated_at < before AND (t.status IN ('COMPLETED', 'FAILED', 'ARCHIVED') OR t.cancelled)
           ORDER BY l.id
           LIMIT 2000) o;
  DELETE FROM agent_task_logs WHERE workspace_id = ws AND id = ANY (old);
  GET DIAGNOSTICS n = ROW_COUNT;
  DELETE FROM agent_task_logs WHERE workspace_id = ws AND task_id = ANY (of) AND event = 'conflict' AND created_at < before;
  RETURN n;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_purge_task_logs(bigint) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_purge_task_logs(bigint) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_purge_task_logs(bigint) TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_purge_task_logs(bigint);
DROP INDEX agent_heartbeats_oldest;
