-- An execution whose row is added when it has ended already, such as that of a beat without work, has one
-- event, which names its end.
-- oldest: 46

-- +goose Up
DROP TRIGGER executions_added;
-- +goose StatementBegin
CREATE TRIGGER executions_added AFTER INSERT ON executions BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'execution.' || CASE NEW.status WHEN 'running' THEN 'started' ELSE NEW.status END, NEW.id, NEW.trace_id,
    json_patch('{}', json_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'subject', NEW.subject, 'status', NEW.status, 'parent_execution_id', NEW.parent_id)), NEW.created_at);
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER executions_added;
-- +goose StatementBegin
CREATE TRIGGER executions_added AFTER INSERT ON executions BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'execution.started', NEW.id, NEW.trace_id, json_patch('{}', json_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'subject', NEW.subject, 'status', NEW.status, 'parent_execution_id', NEW.parent_id)), NEW.created_at);
END;
-- +goose StatementEnd
