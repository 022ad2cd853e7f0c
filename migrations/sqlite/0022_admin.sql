-- What people list and change beside the agents: a change is one of the version that
-- was read, and executions are listed newest first, whatever their surface.

-- +goose Up
ALTER TABLE agent_objectives ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0); -- counts changes by people
ALTER TABLE workspaces ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0);       -- counts changes
CREATE INDEX executions_listed ON executions (workspace_id, created_at DESC, id DESC);

-- +goose Down
DROP INDEX executions_listed;
ALTER TABLE workspaces DROP COLUMN version;
ALTER TABLE agent_objectives DROP COLUMN version;
