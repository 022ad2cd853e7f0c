-- A member has the name that their workspace has given them: one person's name is not
-- told from workspace to workspace. A change of a role counts versions. Who has made a
-- workspace is known, for nobody makes them without bound.

-- +goose Up
ALTER TABLE workspace_members ADD COLUMN name TEXT NOT NULL DEFAULT '' CHECK (length(name) <= 255);
ALTER TABLE workspace_members ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0);
UPDATE workspace_members SET name = (SELECT u.name FROM users u WHERE u.id = user_id);
ALTER TABLE workspaces ADD COLUMN created_by TEXT CHECK (length(created_by) BETWEEN 1 AND 255); -- null: nobody knows
CREATE INDEX workspaces_made ON workspaces (created_by);

-- +goose Down
DROP INDEX workspaces_made;
ALTER TABLE workspaces DROP COLUMN created_by;
ALTER TABLE workspace_members DROP COLUMN version;
ALTER TABLE workspace_members DROP COLUMN name;
