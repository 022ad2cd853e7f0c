-- Live pages are told of every change that they show: an activity with what its row says, the steps of
-- an execution, and what happens to lanes, threads, messages, budgets, heals and kill switches. Who
-- acquires and releases a lane is read from executions: an acquire writes its own row alone.
-- oldest: 46

-- +goose Up
DROP TRIGGER agent_activity_added;
-- +goose StatementBegin
CREATE TRIGGER agent_activity_added AFTER INSERT ON agent_activity BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'activity', NEW.id, NEW.trace_id,
    json_patch('{}', json_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'skill', NEW.skill_name, 'status', NEW.status,
    'duration_ms', NEW.duration_ms, 'execution_id', NEW.execution_id, 'model', NEW.model,
    'summary', substr(NEW.output ->> '$.summary', 1, 300), 'tokens', NEW.token_usage ->> '$.total_tokens',
    'cost_micro_usd', CAST(round(NEW.cost_usd * 1000000) AS INTEGER))), NEW.created_at);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER execution_steps_added AFTER INSERT ON execution_steps WHEN NEW.kind <> 'note' BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'step', NEW.execution_id, NULL,
    json_patch('{}', json_object('execution_id', NEW.execution_id, 'step', NEW.step, 'kind', NEW.kind, 'status', NEW.status,
      'call', NEW.call_id, 'skill', substr(NEW.body ->> '$.skill', 1, 64))), NEW.created_at);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER agent_locks_wanted AFTER UPDATE OF wanted_at ON agent_locks WHEN OLD.wanted_at IS NULL AND NEW.wanted_at IS NOT NULL BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'lane.wanted', NEW.lane, NULL,
    json_patch('{}', json_object('holder', NEW.locked_by, 'wanted_by', NEW.wanted_by)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER threads_added AFTER INSERT ON threads BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'thread.opened', NEW.id, NULL,
    json_patch('{}', json_object('channel', NEW.channel, 'holder', NEW.active_execution_id)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER threads_locked AFTER UPDATE OF active_execution_id ON threads WHEN OLD.active_execution_id IS NOT NEW.active_execution_id BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN NEW.active_execution_id IS NULL THEN 'thread.unlocked' ELSE 'thread.locked' END, NEW.id, NULL,
    json_patch('{}', json_object('channel', NEW.channel, 'holder', NEW.active_execution_id)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER threads_park_changed AFTER UPDATE OF parked_by ON threads WHEN OLD.parked_by IS NOT NEW.parked_by BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN NEW.parked_by IS NULL THEN 'thread.unparked' ELSE 'thread.parked' END, NEW.id, NULL,
    json_patch('{}', json_object('channel', NEW.channel, 'holder', NEW.active_execution_id)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER messages_added AFTER INSERT ON messages BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, CASE NEW.role WHEN 'user' THEN 'message.received' ELSE 'message.said' END, NEW.id, NULL,
    json_patch('{}', json_object('thread_id', NEW.thread_id, 'role', NEW.role, 'execution_id', NEW.execution_id)), NEW.created_at);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER outbox_message_queued AFTER INSERT ON outbox WHEN NEW.kind = 'message' AND NEW.status = 'queued' BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'message.queued', NEW.id, NEW.trace_id,
    json_patch('{}', json_object('thread_id', substr(NEW.order_key, 8), 'status', NEW.status, 'execution_id', NEW.execution_id)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER outbox_message_ended AFTER UPDATE OF status ON outbox
  WHEN NEW.kind = 'message' AND OLD.status <> NEW.status AND NEW.status NOT IN ('queued', 'ready', 'sending') BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'message.' || NEW.status, NEW.id, NEW.trace_id,
    json_patch('{}', json_object('thread_id', substr(NEW.order_key, 8), 'status', NEW.status, 'execution_id', NEW.execution_id)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER usage_budgets_added AFTER INSERT ON usage_budgets BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'budget.created', NEW.id, NULL,
    json_patch('{}', json_object('scope', NEW.scope, 'scope_id', NEW.scope_id, 'allocated', NEW.allocated, 'allocated_micro_usd', NEW.allocated_micro_usd)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER usage_budgets_changed AFTER UPDATE OF allocated, allocated_micro_usd ON usage_budgets
  WHEN OLD.allocated <> NEW.allocated OR OLD.allocated_micro_usd IS NOT NEW.allocated_micro_usd BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'budget.changed', NEW.id, NULL,
    json_patch('{}', json_object('scope', NEW.scope, 'scope_id', NEW.scope_id, 'allocated', NEW.allocated, 'allocated_micro_usd', NEW.allocated_micro_usd)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER heals_added AFTER INSERT ON heals BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'heal.applied', NEW.id, NEW.trace_id,
    json_patch('{}', json_object('skill', NEW.skill, 'status', NEW.status, 'code', NEW.code)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER heals_changed AFTER UPDATE OF status ON heals WHEN OLD.status <> NEW.status BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'heal.' || NEW.status, NEW.id, NEW.trace_id,
    json_patch('{}', json_object('skill', NEW.skill, 'status', NEW.status, 'code', NEW.code)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER kill_switches_added AFTER INSERT ON kill_switches BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'kill_switch.set', NEW.id, NULL,
    json_patch('{}', json_object('scope', NEW.scope, 'target', NEW.target, 'by', coalesce(NEW.released_by, NEW.set_by))), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER kill_switches_released AFTER UPDATE OF released_at ON kill_switches WHEN OLD.released_at IS NULL AND NEW.released_at IS NOT NULL BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'kill_switch.released', NEW.id, NULL,
    json_patch('{}', json_object('scope', NEW.scope, 'target', NEW.target, 'by', coalesce(NEW.released_by, NEW.set_by))), lk_now());
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER kill_switches_released;
DROP TRIGGER kill_switches_added;
DROP TRIGGER heals_changed;
DROP TRIGGER heals_added;
DROP TRIGGER usage_budgets_changed;
DROP TRIGGER usage_budgets_added;
DROP TRIGGER outbox_message_ended;
DROP TRIGGER outbox_message_queued;
DROP TRIGGER messages_added;
DROP TRIGGER threads_park_changed;
DROP TRIGGER threads_locked;
DROP TRIGGER threads_added;
DROP TRIGGER agent_locks_wanted;
DROP TRIGGER execution_steps_added;
DROP TRIGGER agent_activity_added;
-- +goose StatementBegin
CREATE TRIGGER agent_activity_added AFTER INSERT ON agent_activity BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'activity', NEW.id, NEW.trace_id,
    json_patch('{}', json_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'skill', NEW.skill_name, 'status', NEW.status,
    'duration_ms', NEW.duration_ms, 'execution_id', NEW.execution_id)), NEW.created_at);
END;
-- +goose StatementEnd
