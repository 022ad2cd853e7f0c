-- What writes events: each change below appends one, in its own transaction. An
-- event is small: no inputs, outputs or texts of errors.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE FUNCTION lk_event_of_activity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'activity', NEW.id, NEW.trace_id, jsonb_strip_nulls(jsonb_build_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'skill', NEW.skill_name, 'status', NEW.status,
    'duration_ms', NEW.duration_ms, 'execution_id', NEW.execution_id)), NEW.created_at);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON agent_activity FOR EACH ROW EXECUTE FUNCTION lk_event_of_activity();

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_execution() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER event_added AFTER INSERT ON executions FOR EACH ROW EXECUTE FUNCTION lk_event_of_execution();
CREATE TRIGGER event_changed AFTER UPDATE OF status ON executions FOR EACH ROW
  WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION lk_event_of_execution();

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'approval.' || CASE WHEN TG_OP = 'INSERT' THEN 'requested' ELSE NEW.status END,
    NEW.id, NEW.trace_id, jsonb_strip_nulls(jsonb_build_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'skill', NEW.skill, 'status', NEW.status,
    'execution_id', NEW.execution_id, 'by', left(NEW.decided_by, 255))),
    CASE WHEN TG_OP = 'INSERT' THEN NEW.requested_at ELSE lk_now() END);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON approvals FOR EACH ROW EXECUTE FUNCTION lk_event_of_approval();
CREATE TRIGGER event_changed AFTER UPDATE OF status ON approvals FOR EACH ROW
  WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION lk_event_of_approval();

-- Of skills and automations.
-- +goose StatementBegin
CREATE FUNCTION lk_event_of_switch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, TG_ARGV[0] || CASE WHEN NEW.enabled THEN '.enabled' ELSE '.disabled' END, NEW.id,
    jsonb_strip_nulls(jsonb_build_object('name', NEW.name, 'by', NEW.disabled_by)), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- A built-in skill gets its row when it is changed.
CREATE TRIGGER event_added AFTER INSERT ON agent_skills FOR EACH ROW
  WHEN (NOT NEW.enabled) EXECUTE FUNCTION lk_event_of_switch('skill');
CREATE TRIGGER event_changed AFTER UPDATE OF enabled ON agent_skills FOR EACH ROW
  WHEN (OLD.enabled <> NEW.enabled) EXECUTE FUNCTION lk_event_of_switch('skill');
CREATE TRIGGER event_changed AFTER UPDATE OF enabled ON agent_automations FOR EACH ROW
  WHEN (OLD.enabled <> NEW.enabled) EXECUTE FUNCTION lk_event_of_switch('automation');

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_objective() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id,
    'objective.' || CASE WHEN TG_OP = 'INSERT' THEN 'created' WHEN NEW.status = 'active' THEN 'resumed' ELSE NEW.status END,
    NEW.id, jsonb_build_object('title', NEW.title, 'status', NEW.status, 'priority', NEW.priority),
    CASE WHEN TG_OP = 'INSERT' THEN NEW.created_at ELSE lk_now() END);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON agent_objectives FOR EACH ROW EXECUTE FUNCTION lk_event_of_objective();
CREATE TRIGGER event_changed AFTER UPDATE OF status ON agent_objectives FOR EACH ROW
  WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION lk_event_of_objective();

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_memory() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  m agent_memory := CASE WHEN TG_OP = 'INSERT' THEN NEW ELSE OLD END;
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  SELECT m.workspace_id, CASE WHEN TG_OP = 'INSERT' THEN 'memory.saved' ELSE 'memory.forgotten' END, m.id,
         CASE WHEN TG_OP = 'INSERT' THEN m.trace_id END, -- who forgets is another trace
         jsonb_build_object('agent', m.agent, 'category', m.category, 'importance', m.importance),
         CASE WHEN TG_OP = 'INSERT' THEN m.created_at ELSE lk_now() END
   WHERE EXISTS (SELECT FROM workspaces w WHERE w.id = m.workspace_id); -- it may be going, with all its rows
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_changed AFTER INSERT OR DELETE ON agent_memory FOR EACH ROW EXECUTE FUNCTION lk_event_of_memory();

-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['lk_event_of_activity()', 'lk_event_of_execution()', 'lk_event_of_approval()',
    'lk_event_of_switch()', 'lk_event_of_objective()', 'lk_event_of_memory()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f); -- triggers need no right to it
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_event_of_activity() CASCADE;
DROP FUNCTION lk_event_of_execution() CASCADE;
DROP FUNCTION lk_event_of_approval() CASCADE;
DROP FUNCTION lk_event_of_switch() CASCADE;
DROP FUNCTION lk_event_of_objective() CASCADE;
DROP FUNCTION lk_event_of_memory() CASCADE;
