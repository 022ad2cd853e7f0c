-- The log of a task goes when the task has been over for as long as activities are kept, in batches;
-- and a cycle finds old heartbeats by their time.
-- oldest: 46

-- +goose Up
CREATE INDEX agent_heartbeats_oldest ON agent_heartbeats (workspace_id, created_at);
DROP TRIGGER agent_task_logs_not_deleted;
-- Rows go with their workspace, or when their task is over and they are a day old.
-- +goose StatementBegin
CREATE TRIGGER agent_task_logs_not_deleted BEFORE DELETE ON agent_task_logs
WHEN EXISTS (SELECT 1 FROM workspaces w WHERE w.id = OLD.workspace_id)
 AND (OLD.created_at > lk_plus(lk_now(), -86400000)
   OR EXISTS (SELECT 1 FROM agent_tasks t WHERE t.workspace_id = OLD.workspace_id AND t.id = OLD.task_id
               AND t.status NOT IN ('COMPLETED', 'FAILED', 'ARCHIVED') AND NOT t.cancelled)) BEGIN
  SELECT RAISE(ABORT, 'agent_task_logs is append-only');
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER agent_task_logs_not_deleted;
-- +goose StatementBegin
CREATE TRIGGER agent_task_logs_not_deleted BEFORE DELETE ON agent_task_logs
WHEN EXISTS (SELECT 1 FROM workspaces w WHERE w.id = OLD.workspace_id) BEGIN
  SELECT RAISE(ABORT, 'agent_task_logs is append-only');
END;
-- +goose StatementEnd
DROP INDEX agent_heartbeats_oldest;
