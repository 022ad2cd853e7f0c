-- The events of a step and of a lane that is wanted name the trace in which it happens, so that a page can
-- tell whether they are about what it shows.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_event_of_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'step', NEW.execution_id,
    (SELECT e.trace_id FROM executions e WHERE e.workspace_id = NEW.workspace_id AND e.id = NEW.execution_id), jsonb_strip_nulls(jsonb_build_object(
    'execution_id', NEW.execution_id, 'step', NEW.step, 'kind', NEW.kind, 'status', NEW.status, 'call', NEW.call_id,
    'skill', left(NEW.body ->> 'skill', 64))), NEW.created_at);
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_event_of_lane() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'lane.wanted', NEW.lane, NEW.trace_id,
    jsonb_strip_nulls(jsonb_build_object('holder', NEW.locked_by, 'wanted_by', NEW.wanted_by)), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['lk_event_of_step()', 'lk_event_of_lane()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f); -- triggers need no right to it
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_event_of_lane() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, 'lane.wanted', NEW.lane, jsonb_strip_nulls(jsonb_build_object('holder', NEW.locked_by, 'wanted_by', NEW.wanted_by)), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_event_of_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, 'step', NEW.execution_id, jsonb_strip_nulls(jsonb_build_object(
    'execution_id', NEW.execution_id, 'step', NEW.step, 'kind', NEW.kind, 'status', NEW.status, 'call', NEW.call_id,
    'skill', left(NEW.body ->> 'skill', 64))), NEW.created_at);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_event_of_step() SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lk_event_of_lane() SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
