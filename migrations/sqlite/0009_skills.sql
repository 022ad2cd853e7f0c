-- Skills that are rows: ones done by a request, a function or another server's
-- tool, and what differs from the code of a built-in one.

-- +goose Up
CREATE TABLE agent_skills (
  workspace_id      TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                TEXT NOT NULL,
  name              TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64 AND ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_') = ''
                                         AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''),
  kind              TEXT NOT NULL CHECK (kind IN ('builtin', 'http', 'lambda', 'mcp')),
  description       TEXT CHECK (length(description) BETWEEN 1 AND 4000),
  parameters        TEXT CHECK (length(parameters) <= 32768),
  config            TEXT CHECK (json_valid(config)) CHECK (length(config) <= 32768),
  -- A built-in skill's row says what it changes; null leaves it to the code.
  scope             TEXT CHECK (scope IN ('internal', 'external', 'both')),
  requires_approval INTEGER CHECK (requires_approval IN (0, 1)),
  serial            INTEGER CHECK (serial IN (0, 1)),
  timeout_seconds   INTEGER CHECK (timeout_seconds BETWEEN 1 AND 900),
  enabled           INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  disabled_by       TEXT CHECK (disabled_by IN ('human', 'self_healing')),
  disabled_reason   TEXT CHECK (length(disabled_reason) BETWEEN 1 AND 500),
  disabled_at       INTEGER,
  version           INTEGER NOT NULL DEFAULT 1 CHECK (version > 0),
  created_by        TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name),
  CHECK (enabled = (disabled_by IS NULL) AND enabled = (disabled_at IS NULL) AND (disabled_reason IS NULL OR disabled_by IS NOT NULL)),
  CHECK ((kind = 'builtin') = (description IS NULL) AND (kind = 'builtin') = (parameters IS NULL) AND (kind = 'builtin') = (config IS NULL)),
  CHECK (kind = 'builtin' OR scope IS NOT NULL AND requires_approval IS NOT NULL AND serial IS NOT NULL)
) STRICT;

-- +goose Down
DROP TABLE agent_skills;
