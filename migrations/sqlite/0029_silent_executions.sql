-- What no lane protects and has not ended, by when something was last heard of it: a
-- heartbeat ends what is silent for long.

-- +goose Up
CREATE INDEX executions_unprotected ON executions (workspace_id, updated_at)
  WHERE subject IS NULL AND status IN ('running', 'waiting', 'parked');

-- +goose Down
DROP INDEX executions_unprotected;
