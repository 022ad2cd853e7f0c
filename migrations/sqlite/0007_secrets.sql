-- What nobody may read: values that are sealed before they come here.

-- +goose Up
CREATE TABLE secrets (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64
    AND ltrim(name, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-') = ''),
  sealed       BLOB NOT NULL CHECK (length(sealed) BETWEEN 1 AND 80000),
  key_id       TEXT NOT NULL CHECK (length(key_id) BETWEEN 1 AND 2048),
  version      INTEGER NOT NULL DEFAULT 1,
  created_by   TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, name)
) STRICT;

-- +goose Down
DROP TABLE secrets;
