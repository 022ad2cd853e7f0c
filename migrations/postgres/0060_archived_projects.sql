-- Projects and milestones may be archived: they stay, and get no new tasks.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE projects ADD COLUMN archived_at timestamptz;
ALTER TABLE milestones ADD COLUMN archived_at timestamptz;

-- +goose Down
ALTER TABLE milestones DROP COLUMN archived_at;
ALTER TABLE projects DROP COLUMN archived_at;
