-- What nobody may read: values that are sealed before they come here.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE secrets (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 64
    AND ltrim(name, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-') = ''),
  sealed       bytea NOT NULL CHECK (length(sealed) BETWEEN 1 AND 80000),
  key_id       text NOT NULL CHECK (length(key_id) BETWEEN 1 AND 2048), -- of the key that the value is sealed under
  version      bigint NOT NULL DEFAULT 1, -- counts the values it has had
  created_by   text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, name)
);
CALL lk_protect('secrets');

-- +goose Down
DROP TABLE secrets;
