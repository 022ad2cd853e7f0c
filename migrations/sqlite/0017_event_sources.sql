-- What writes events: each change below appends one, in its own transaction. An
-- event is small: no inputs, outputs or texts of errors. json_patch leaves nulls out.

-- +goose Up
-- +goose StatementBegin
CREATE TRIGGER agent_activity_added AFTER INSERT ON agent_activity BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'activity', NEW.id, NEW.trace_id, json_patch('{}', json_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'skill', NEW.skill_name, 'status', NEW.status,
    'duration_ms', NEW.duration_ms, 'execution_id', NEW.execution_id)), NEW.created_at);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER executions_added AFTER INSERT ON executions BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'execution.started', NEW.id, NEW.trace_id, json_patch('{}', json_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'subject', NEW.subject, 'status', NEW.status, 'parent_execution_id', NEW.parent_id)), NEW.created_at);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER executions_changed AFTER UPDATE OF status ON executions WHEN OLD.status <> NEW.status BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'execution.' || CASE NEW.status WHEN 'running' THEN 'resumed' ELSE NEW.status END, NEW.id, NEW.trace_id, json_patch('{}', json_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'subject', NEW.subject, 'status', NEW.status, 'parent_execution_id', NEW.parent_id)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER approvals_added AFTER INSERT ON approvals BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'approval.requested', NEW.id, NEW.trace_id, json_patch('{}', json_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'skill', NEW.skill, 'status', NEW.status,
    'execution_id', NEW.execution_id, 'by', substr(NEW.decided_by, 1, 255))), NEW.requested_at);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER approvals_changed AFTER UPDATE OF status ON approvals WHEN OLD.status <> NEW.status BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'approval.' || NEW.status, NEW.id, NEW.trace_id, json_patch('{}', json_object(
    'agent', NEW.agent, 'surface', NEW.surface, 'skill', NEW.skill, 'status', NEW.status,
    'execution_id', NEW.execution_id, 'by', substr(NEW.decided_by, 1, 255))), lk_now());
END;
-- +goose StatementEnd

-- A built-in skill gets its row when it is changed.
-- +goose StatementBegin
CREATE TRIGGER agent_skills_added AFTER INSERT ON agent_skills WHEN NOT NEW.enabled BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'skill.disabled', NEW.id, NULL, json_patch('{}', json_object('name', NEW.name, 'by', NEW.disabled_by)), lk_now());
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agent_skills_changed AFTER UPDATE OF enabled ON agent_skills WHEN OLD.enabled <> NEW.enabled BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN NEW.enabled THEN 'skill.enabled' ELSE 'skill.disabled' END, NEW.id, NULL,
    json_patch('{}', json_object('name', NEW.name, 'by', NEW.disabled_by)), lk_now());
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agent_automations_changed AFTER UPDATE OF enabled ON agent_automations WHEN OLD.enabled <> NEW.enabled BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN NEW.enabled THEN 'automation.enabled' ELSE 'automation.disabled' END, NEW.id, NULL,
    json_patch('{}', json_object('name', NEW.name, 'by', NEW.disabled_by)), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER agent_objectives_added AFTER INSERT ON agent_objectives BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'objective.created', NEW.id, NULL,
    json_object('title', NEW.title, 'status', NEW.status, 'priority', NEW.priority), NEW.created_at);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agent_objectives_changed AFTER UPDATE OF status ON agent_objectives WHEN OLD.status <> NEW.status BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'objective.' || CASE NEW.status WHEN 'active' THEN 'resumed' ELSE NEW.status END, NEW.id, NULL,
    json_object('title', NEW.title, 'status', NEW.status, 'priority', NEW.priority), lk_now());
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER agent_memory_added AFTER INSERT ON agent_memory BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'memory.saved', NEW.id, NEW.trace_id,
    json_object('agent', NEW.agent, 'category', NEW.category, 'importance', NEW.importance), NEW.created_at);
END;
-- +goose StatementEnd
-- The workspace itself may be going, with all its rows.
-- +goose StatementBegin
CREATE TRIGGER agent_memory_deleted AFTER DELETE ON agent_memory BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  SELECT OLD.workspace_id, 'memory.forgotten', OLD.id, NULL,
    json_object('agent', OLD.agent, 'category', OLD.category, 'importance', OLD.importance), lk_now()
   WHERE EXISTS (SELECT 1 FROM workspaces w WHERE w.id = OLD.workspace_id);
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER agent_memory_deleted;
DROP TRIGGER agent_memory_added;
DROP TRIGGER agent_objectives_changed;
DROP TRIGGER agent_objectives_added;
DROP TRIGGER agent_automations_changed;
DROP TRIGGER agent_skills_changed;
DROP TRIGGER agent_skills_added;
DROP TRIGGER approvals_changed;
DROP TRIGGER approvals_added;
DROP TRIGGER executions_changed;
DROP TRIGGER executions_added;
DROP TRIGGER agent_activity_added;
