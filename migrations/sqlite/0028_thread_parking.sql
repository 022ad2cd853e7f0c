-- Who waits for a person's answer is found by it: executions whose thread is not parked
-- any more go on.

-- +goose Up
CREATE INDEX threads_parked ON threads (workspace_id, parked_by) WHERE parked_by IS NOT NULL;
CREATE INDEX executions_parked ON executions (workspace_id, id) WHERE status = 'parked' AND subject IS NULL;

-- +goose Down
DROP INDEX executions_parked;
DROP INDEX threads_parked;
