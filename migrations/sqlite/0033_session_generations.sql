-- A session's cookie names the generation that it belongs to. Signing out raises that of
-- the person, or of the installation's local admin, and so ends all older sessions.

-- +goose Up
ALTER TABLE users ADD COLUMN session_generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workspaces ADD COLUMN session_generation INTEGER NOT NULL DEFAULT 0; -- of the workspace's local admin

-- +goose Down
ALTER TABLE workspaces DROP COLUMN session_generation;
ALTER TABLE users DROP COLUMN session_generation;
