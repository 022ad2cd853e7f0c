-- What metrics read from rows: numbers of tasks, agents, lanes and approvals, and how far the outbox
-- and the inbox lag.
-- oldest: 46

-- +goose Up
CREATE INDEX agent_tasks_failed ON agent_tasks (workspace_id, failed_at) WHERE status = 'FAILED';

-- +goose Down
DROP INDEX agent_tasks_failed;
