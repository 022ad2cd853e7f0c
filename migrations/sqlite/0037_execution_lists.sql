-- Executions are listed by status, agent or subject without reading the others.

-- +goose Up
CREATE INDEX executions_status ON executions (workspace_id, status, created_at DESC, id DESC) WHERE status <> 'completed';
CREATE INDEX executions_agent ON executions (workspace_id, agent, created_at DESC, id DESC);
CREATE INDEX executions_subject ON executions (workspace_id, subject, created_at DESC, id DESC) WHERE subject IS NOT NULL;

-- +goose Down
DROP INDEX executions_subject;
DROP INDEX executions_agent;
DROP INDEX executions_status;
