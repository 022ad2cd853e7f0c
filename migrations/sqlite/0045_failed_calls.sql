-- Whether calls have failed lately is asked by every beat of the heartbeat.
-- oldest: 41

-- +goose Up
CREATE INDEX agent_activity_failed ON agent_activity (workspace_id, created_at)
  WHERE skill_name IS NOT NULL AND status = 'error' AND coalesce(output ->> 'class', '') IN ('', 'ours', 'theirs');

-- +goose Down
DROP INDEX agent_activity_failed;
