-- What is due, of all workspaces at once: for the schedule's tick, and for whoever tends
-- what waits between beats. Executions are listed by status, agent or subject without
-- reading the others.

-- +goose Up
ALTER TABLE executions ADD COLUMN timeout_seconds INTEGER CHECK (timeout_seconds > 0); -- of an execution that no lane protects; NULL: a week
CREATE INDEX executions_status ON executions (workspace_id, status, created_at DESC, id DESC) WHERE status <> 'completed';
CREATE INDEX executions_agent ON executions (workspace_id, agent, created_at DESC, id DESC);
CREATE INDEX executions_subject ON executions (workspace_id, subject, created_at DESC, id DESC) WHERE subject IS NOT NULL;

-- +goose Down
DROP INDEX executions_subject;
DROP INDEX executions_agent;
DROP INDEX executions_status;
ALTER TABLE executions DROP COLUMN timeout_seconds;
