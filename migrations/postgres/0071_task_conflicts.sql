-- The conflicts in the logs of tasks, whose ids do not grow with time, are found by their time, and go by
-- themselves: a conflict may be logged after the other rows of its task have gone.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE INDEX agent_task_logs_conflicts ON agent_task_logs (workspace_id, created_at) WHERE event = 'conflict';

-- lk_purge_task_logs goes by the ids of rows, which grow with time, and then by the time of conflicts.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_purge_task_logs(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  ws     uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  before timestamptz := lk_plus(lk_now(), -p_keep_ms);
  beyond uuid := CAST(lpad(to_hex(CAST(floor(extract(epoch FROM before) * 1000) AS bigint)), 12, '0') || '00000000000000000000' AS uuid);
  old    uuid[];
  n      bigint;
  m      bigint;
BEGIN
  IF ws IS NULL OR p_keep_ms < 86400000 THEN
    RAISE EXCEPTION 'a purge needs a workspace and a retention of a day at least' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT array_agg(o.id) INTO old
    FROM (SELECT l.id
            FROM agent_task_logs l
            JOIN agent_tasks t ON t.workspace_id = l.workspace_id AND t.id = l.task_id
           WHERE l.workspace_id = ws AND l.id < beyond AND l.created_at < before
             AND t.updated_at < before AND (t.status IN ('COMPLETED', 'FAILED', 'ARCHIVED') OR t.cancelled)
           ORDER BY l.id
           LIMIT 2000) o;
  DELETE FROM agent_task_logs WHERE workspace_id = ws AND id = ANY (old);
  GET DIAGNOSTICS n = ROW_COUNT;
  SELECT array_agg(o.id) INTO old
    FROM (SELECT l.id
            FROM agent_task_logs l
            JOIN agent_tasks t ON t.workspace_id = l.workspace_id AND t.id = l.task_id
           WHERE l.workspace_id = ws AND l.event = 'conflict' AND l.created_at < before
             AND t.updated_at < before AND (t.status IN ('COMPLETED', 'FAILED', 'ARCHIVED') OR t.cancelled)
           ORDER BY l.created_at
           LIMIT 2000) o;
  DELETE FROM agent_task_logs WHERE workspace_id = ws AND id = ANY (old);
  GET DIAGNOSTICS m = ROW_COUNT;
  RETURN greatest(n, m);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_purge_task_logs(bigint) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_purge_task_logs(p_keep_ms bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
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
END $$;
-- +goose StatementEnd
DROP INDEX agent_task_logs_conflicts;
