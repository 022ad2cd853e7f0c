-- Live pages are told of every change that they show: an activity with what its row says, the steps of
-- an execution, and what happens to lanes, threads, messages, budgets, heals and kill switches. Who
-- acquires and releases a lane is read from executions: an acquire writes its own row alone.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_event_of_activity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'activity', NEW.id, NEW.trace_id, jsonb_strip_nulls(jsonb_build_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'skill', NEW.skill_name, 'status', NEW.status,
    'duration_ms', NEW.duration_ms, 'execution_id', NEW.execution_id, 'model', NEW.model,
    'summary', left(NEW.output ->> 'summary', 300), 'tokens', CAST(NEW.token_usage ->> 'total_tokens' AS bigint),
    'cost_micro_usd', CAST(round(NEW.cost_usd * 1000000) AS bigint))), NEW.created_at);
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, 'step', NEW.execution_id, jsonb_strip_nulls(jsonb_build_object(
    'execution_id', NEW.execution_id, 'step', NEW.step, 'kind', NEW.kind, 'status', NEW.status, 'call', NEW.call_id,
    'skill', left(NEW.body ->> 'skill', 64))), NEW.created_at);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON execution_steps FOR EACH ROW
  WHEN (NEW.kind <> 'note') EXECUTE FUNCTION lk_event_of_step();

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_lane() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, 'lane.wanted', NEW.lane, jsonb_strip_nulls(jsonb_build_object('holder', NEW.locked_by, 'wanted_by', NEW.wanted_by)), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_wanted AFTER UPDATE OF wanted_at ON agent_locks FOR EACH ROW
  WHEN (OLD.wanted_at IS NULL AND NEW.wanted_at IS NOT NULL) EXECUTE FUNCTION lk_event_of_lane();

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_thread() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id,
    CASE WHEN TG_OP = 'INSERT' THEN 'thread.opened' WHEN TG_ARGV[0] = 'parked' AND NEW.parked_by IS NOT NULL THEN 'thread.parked'
         WHEN TG_ARGV[0] = 'parked' THEN 'thread.unparked' WHEN NEW.active_execution_id IS NULL THEN 'thread.unlocked' ELSE 'thread.locked' END,
    NEW.id, jsonb_strip_nulls(jsonb_build_object('channel', NEW.channel, 'holder', NEW.active_execution_id)), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON threads FOR EACH ROW EXECUTE FUNCTION lk_event_of_thread('opened');
CREATE TRIGGER event_locked AFTER UPDATE OF active_execution_id ON threads FOR EACH ROW
  WHEN (OLD.active_execution_id IS DISTINCT FROM NEW.active_execution_id) EXECUTE FUNCTION lk_event_of_thread('locked');
CREATE TRIGGER event_parked AFTER UPDATE OF parked_by ON threads FOR EACH ROW
  WHEN (OLD.parked_by IS DISTINCT FROM NEW.parked_by) EXECUTE FUNCTION lk_event_of_thread('parked');

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, CASE NEW.role WHEN 'user' THEN 'message.received' ELSE 'message.said' END, NEW.id,
    jsonb_strip_nulls(jsonb_build_object('thread_id', NEW.thread_id, 'role', NEW.role, 'execution_id', NEW.execution_id)), NEW.created_at);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION lk_event_of_message();

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_sending() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'message.' || NEW.status, NEW.id, NEW.trace_id,
    jsonb_strip_nulls(jsonb_build_object('thread_id', substr(NEW.order_key, 8), 'status', NEW.status, 'execution_id', NEW.execution_id)), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON outbox FOR EACH ROW
  WHEN (NEW.kind = 'message' AND NEW.status = 'queued') EXECUTE FUNCTION lk_event_of_sending();
CREATE TRIGGER event_changed AFTER UPDATE OF status ON outbox FOR EACH ROW
  WHEN (NEW.kind = 'message' AND OLD.status <> NEW.status AND NEW.status NOT IN ('queued', 'ready', 'sending')) EXECUTE FUNCTION lk_event_of_sending();

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_allocation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN TG_OP = 'INSERT' THEN 'budget.created' ELSE 'budget.changed' END, NEW.id,
    jsonb_strip_nulls(jsonb_build_object('scope', NEW.scope, 'scope_id', NEW.scope_id, 'allocated', NEW.allocated,
      'allocated_micro_usd', NEW.allocated_micro_usd)), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON usage_budgets FOR EACH ROW EXECUTE FUNCTION lk_event_of_allocation();
CREATE TRIGGER event_changed AFTER UPDATE OF allocated, allocated_micro_usd ON usage_budgets FOR EACH ROW
  WHEN (OLD.allocated <> NEW.allocated OR OLD.allocated_micro_usd IS DISTINCT FROM NEW.allocated_micro_usd) EXECUTE FUNCTION lk_event_of_allocation();

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_heal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'heal.' || CASE WHEN TG_OP = 'INSERT' THEN 'applied' ELSE NEW.status END, NEW.id, NEW.trace_id,
    jsonb_build_object('skill', NEW.skill, 'status', NEW.status, 'code', NEW.code), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON heals FOR EACH ROW EXECUTE FUNCTION lk_event_of_heal();
CREATE TRIGGER event_changed AFTER UPDATE OF status ON heals FOR EACH ROW
  WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION lk_event_of_heal();

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_kill_switch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN NEW.released_at IS NULL THEN 'kill_switch.set' ELSE 'kill_switch.released' END, NEW.id,
    jsonb_strip_nulls(jsonb_build_object('scope', NEW.scope, 'target', NEW.target, 'by', coalesce(NEW.released_by, NEW.set_by))), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON kill_switches FOR EACH ROW EXECUTE FUNCTION lk_event_of_kill_switch();
CREATE TRIGGER event_changed AFTER UPDATE OF released_at ON kill_switches FOR EACH ROW
  WHEN (OLD.released_at IS NULL AND NEW.released_at IS NOT NULL) EXECUTE FUNCTION lk_event_of_kill_switch();

-- +goose StatementBegin
DO $$
DECLARE f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['lk_event_of_activity()', 'lk_event_of_step()', 'lk_event_of_lane()', 'lk_event_of_thread()', 'lk_event_of_message()',
    'lk_event_of_sending()', 'lk_event_of_allocation()', 'lk_event_of_heal()', 'lk_event_of_kill_switch()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f); -- triggers need no right to it
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_event_of_kill_switch() CASCADE;
DROP FUNCTION lk_event_of_heal() CASCADE;
DROP FUNCTION lk_event_of_allocation() CASCADE;
DROP FUNCTION lk_event_of_sending() CASCADE;
DROP FUNCTION lk_event_of_message() CASCADE;
DROP FUNCTION lk_event_of_thread() CASCADE;
DROP FUNCTION lk_event_of_lane() CASCADE;
DROP FUNCTION lk_event_of_step() CASCADE;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION lk_event_of_activity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'activity', NEW.id, NEW.trace_id, jsonb_strip_nulls(jsonb_build_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'skill', NEW.skill_name, 'status', NEW.status,
    'duration_ms', NEW.duration_ms, 'execution_id', NEW.execution_id)), NEW.created_at);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_event_of_activity() SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
