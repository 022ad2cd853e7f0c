-- The names of keys that the program makes begin with a colon, which no name of a user's
-- secret can: "lanekeeper." is a user's like any other again.
-- oldest: 40

-- +goose Up
-- A key that was made under its old name is made anew: people sign in once more.
DELETE FROM secrets WHERE name LIKE 'lanekeeper.%-key' AND created_by = 'lanekeeper';
CREATE TABLE secrets_new (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64
    AND ltrim(CASE WHEN substr(name, 1, 1) = ':' THEN substr(name, 2) ELSE name END,
      'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-') = ''),
  sealed       BLOB NOT NULL CHECK (length(sealed) BETWEEN 1 AND 80000),
  key_id       TEXT NOT NULL CHECK (length(key_id) BETWEEN 1 AND 2048),
  version      INTEGER NOT NULL DEFAULT 1,
  created_by   TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, name)
) STRICT;
INSERT INTO secrets_new SELECT workspace_id, name, sealed, key_id, version, created_by, created_at, updated_at FROM secrets;
DROP TABLE secrets;
ALTER TABLE secrets_new RENAME TO secrets;

-- +goose Down
DELETE FROM secrets WHERE substr(name, 1, 1) = ':';
CREATE TABLE secrets_new (
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
INSERT INTO secrets_new SELECT workspace_id, name, sealed, key_id, version, created_by, created_at, updated_at FROM secrets;
DROP TABLE secrets;
ALTER TABLE secrets_new RENAME TO secrets;
