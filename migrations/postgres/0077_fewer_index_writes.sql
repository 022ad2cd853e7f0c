-- What a run uses is written at each step: updated_at is in no index of executions any more, so that such a
-- write needs no new entry in all of them. A budget finds its reservations when it is deleted. Two indexes
-- that no statement reads are gone.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
DROP INDEX executions_unprotected;
CREATE INDEX executions_unprotected ON executions (workspace_id, id)
  WHERE subject IS NULL AND status IN ('running', 'waiting', 'parked');
DROP INDEX executions_thread;
DROP INDEX agent_activity_execution;
CREATE INDEX usage_reservations_budget ON usage_reservations (workspace_id, budget_id);

-- +goose Down
SET LOCAL lock_timeout = '10s';
DROP INDEX usage_reservations_budget;
CREATE INDEX agent_activity_execution ON agent_activity (workspace_id, execution_id, created_at) WHERE execution_id IS NOT NULL;
CREATE INDEX executions_thread ON executions (workspace_id, (input ->> 'thread_id'), created_at) WHERE input ->> 'task' = 'turn';
DROP INDEX executions_unprotected;
CREATE INDEX executions_unprotected ON executions (workspace_id, updated_at)
  WHERE subject IS NULL AND status IN ('running', 'waiting', 'parked');
