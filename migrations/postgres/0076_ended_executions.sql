-- An execution whose row is added when it has ended already, such as that of a beat without work, has one
-- event, which names its end.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_event_of_execution() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id,
    'execution.' || CASE WHEN NEW.status <> 'running' THEN NEW.status WHEN TG_OP = 'INSERT' THEN 'started' ELSE 'resumed' END,
    NEW.id, NEW.trace_id, jsonb_strip_nulls(jsonb_build_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'subject', NEW.subject, 'status', NEW.status, 'parent_execution_id', NEW.parent_id)),
    CASE WHEN TG_OP = 'INSERT' THEN NEW.created_at ELSE lk_now() END);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_event_of_execution() SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_event_of_execution() FROM PUBLIC; -- triggers need no right to it
END $$;
-- +goose StatementEnd

-- +goose Down
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_event_of_execution() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id,
    'execution.' || CASE WHEN TG_OP = 'INSERT' THEN 'started' WHEN NEW.status = 'running' THEN 'resumed' ELSE NEW.status END,
    NEW.id, NEW.trace_id, jsonb_strip_nulls(jsonb_build_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'subject', NEW.subject, 'status', NEW.status, 'parent_execution_id', NEW.parent_id)),
    CASE WHEN TG_OP = 'INSERT' THEN NEW.created_at ELSE lk_now() END);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_event_of_execution() SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_event_of_execution() FROM PUBLIC;
END $$;
-- +goose StatementEnd
