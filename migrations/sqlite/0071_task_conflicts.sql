-- The conflicts in the logs of tasks, whose ids do not grow with time, are found by their time.
-- oldest: 46

-- +goose Up
CREATE INDEX agent_task_logs_conflicts ON agent_task_logs (workspace_id, created_at) WHERE event = 'conflict';

-- +goose Down
DROP INDEX agent_task_logs_conflicts;
