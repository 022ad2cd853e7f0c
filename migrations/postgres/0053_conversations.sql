-- What the turns of one conversation have used lately is summed up without reading the others.
-- oldest: 41

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE INDEX executions_thread ON executions (workspace_id, (input ->> 'thread_id'), created_at) WHERE input ->> 'task' = 'turn';

-- +goose Down
DROP INDEX executions_thread;
