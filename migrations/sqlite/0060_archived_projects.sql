-- Projects and milestones may be archived: they stay, and get no new tasks.
-- oldest: 46

-- +goose Up
ALTER TABLE projects ADD COLUMN archived_at INTEGER;
ALTER TABLE milestones ADD COLUMN archived_at INTEGER;

-- +goose Down
ALTER TABLE milestones DROP COLUMN archived_at;
ALTER TABLE projects DROP COLUMN archived_at;
