-- The alerts of budgets, the restored heals of a skill and the commands that were just carried out are found
-- without a look at the others.
-- oldest: 46

-- +goose Up
CREATE INDEX usage_budgets_warned ON usage_budgets (workspace_id, period_end) WHERE threshold > 0;
CREATE INDEX heals_restored ON heals (workspace_id, skill, updated_at DESC) WHERE status = 'restored';
CREATE INDEX coordinator_commands_done ON coordinator_commands (workspace_id, done_at, id) WHERE done_at IS NOT NULL;

-- +goose Down
DROP INDEX coordinator_commands_done;
DROP INDEX heals_restored;
DROP INDEX usage_budgets_warned;
