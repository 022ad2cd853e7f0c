-- The events of a step and of a lane that is wanted name the trace in which it happens, so that a page can
-- tell whether they are about what it shows.
-- oldest: 46

-- +goose Up
DROP TRIGGER execution_steps_added;
-- +goose StatementBegin
CREATE TRIGGER execution_steps_added AFTER INSERT ON execution_steps WHEN NEW.kind <> 'note' BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'step', NEW.execution_id,
    (SELECT e.trace_id FROM executions e WHERE e.workspace_id = NEW.workspace_id AND e.id = NEW.execution_id),
    json_patch('{}', json_object('execution_id', NEW.execution_id, 'step', NEW.step, 'kind', NEW.kind, 'status', NEW.status,
      'call', NEW.call_id, 'skill', substr(NEW.body ->> '$.skill', 1, 64))), NEW.created_at);
END;
-- +goose StatementEnd

DROP TRIGGER agent_locks_wanted;
-- +goose StatementBegin
CREATE TRIGGER agent_locks_wanted AFTER UPDATE OF wanted_at ON agent_locks WHEN OLD.wanted_at IS NULL AND NEW.wanted_at IS NOT NULL BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'lane.wanted', NEW.lane, NEW.trace_id,
    json_patch('{}', json_object('holder', NEW.locked_by, 'wanted_by', NEW.wanted_by)), lk_now());
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER agent_locks_wanted;
-- +goose StatementBegin
CREATE TRIGGER agent_locks_wanted AFTER UPDATE OF wanted_at ON agent_locks WHEN OLD.wanted_at IS NULL AND NEW.wanted_at IS NOT NULL BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'lane.wanted', NEW.lane, NULL,
    json_patch('{}', json_object('holder', NEW.locked_by, 'wanted_by', NEW.wanted_by)), lk_now());
END;
-- +goose StatementEnd
DROP TRIGGER execution_steps_added;
-- +goose StatementBegin
CREATE TRIGGER execution_steps_added AFTER INSERT ON execution_steps WHEN NEW.kind <> 'note' BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'step', NEW.execution_id, NULL,
    json_patch('{}', json_object('execution_id', NEW.execution_id, 'step', NEW.step, 'kind', NEW.kind, 'status', NEW.status,
      'call', NEW.call_id, 'skill', substr(NEW.body ->> '$.skill', 1, 64))), NEW.created_at);
END;
-- +goose StatementEnd
