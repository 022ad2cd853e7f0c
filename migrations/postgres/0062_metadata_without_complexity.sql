-- Without a complexity in its metadata, a task that was completed counts with complexity 5, as its
-- estimate does.
-- oldest: 46

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_note_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage_estimates (workspace_id, task_id, task_type, complexity, used, finished_at)
  SELECT NEW.workspace_id, NEW.id, coalesce(NEW.task_type, ''), least(1000, coalesce(nullif(ceil(CAST(substring(
           CASE json_typeof(CAST(NEW.metadata AS json) -> 'complexity') WHEN 'number' THEN CAST(NEW.metadata AS json) ->> 'complexity' END
           FROM '^[0-9]{1,9}(?:\.[0-9]{1,9})?$') AS numeric)), 0), 5)), sum(l.total_tokens), lk_now()
    FROM agent_usage_logs l
   WHERE l.workspace_id = NEW.workspace_id AND l.task_id = NEW.id
  HAVING sum(l.total_tokens) > 0
  ON CONFLICT (workspace_id, task_id) DO UPDATE SET
    task_type = EXCLUDED.task_type, complexity = EXCLUDED.complexity, used = EXCLUDED.used, finished_at = EXCLUDED.finished_at;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_note_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage_estimates (workspace_id, task_id, task_type, complexity, used, finished_at)
  SELECT NEW.workspace_id, NEW.id, coalesce(NEW.task_type, ''),
         coalesce(least(1000, nullif(ceil(CAST(substring(
           CASE json_typeof(CAST(NEW.metadata AS json) -> 'complexity') WHEN 'number' THEN CAST(NEW.metadata AS json) ->> 'complexity' END
           FROM '^[0-9]{1,9}(?:\.[0-9]{1,9})?$') AS numeric)), 0)), 5), sum(l.total_tokens), lk_now()
    FROM agent_usage_logs l
   WHERE l.workspace_id = NEW.workspace_id AND l.task_id = NEW.id
  HAVING sum(l.total_tokens) > 0
  ON CONFLICT (workspace_id, task_id) DO UPDATE SET
    task_type = EXCLUDED.task_type, complexity = EXCLUDED.complexity, used = EXCLUDED.used, finished_at = EXCLUDED.finished_at;
  RETURN NULL;
END $$;
-- +goose StatementEnd
