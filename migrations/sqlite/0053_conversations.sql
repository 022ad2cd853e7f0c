-- What the turns of one conversation have used is summed up without reading the others.
-- oldest: 41

-- +goose Up
CREATE INDEX executions_thread ON executions (workspace_id, (input ->> 'thread_id')) WHERE input ->> 'task' = 'turn';

-- +goose Down
DROP INDEX executions_thread;
