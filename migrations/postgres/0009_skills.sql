-- Skills that are rows: ones done by a request, a function or another server's
-- tool, and what differs from the code of a built-in one.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE agent_skills (
  workspace_id      uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                uuid NOT NULL,
  name              text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 64 AND ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_') = ''
                                                     AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''),
  kind              text NOT NULL CHECK (kind IN ('builtin', 'http', 'lambda', 'mcp')),
  description       text CHECK (length(description) BETWEEN 1 AND 4000),
  parameters        text CHECK (length(parameters) <= 32768), -- text: a model fills in properties in their order, which jsonb loses
  config            jsonb CHECK (length(CAST(config AS text)) <= 32768), -- 16 KiB; what jsonb adds of spaces is at most as much
  -- A built-in skill's row says what it changes; null leaves it to the code.
  scope             text CHECK (scope IN ('internal', 'external', 'both')),
  requires_approval boolean,
  serial            boolean,
  timeout_seconds   integer CHECK (timeout_seconds BETWEEN 1 AND 900), -- null: the workspace's default
  enabled           boolean NOT NULL DEFAULT true,
  disabled_by       text CHECK (disabled_by IN ('human', 'self_healing')),
  disabled_reason   text CHECK (length(disabled_reason) BETWEEN 1 AND 500),
  disabled_at       timestamptz,
  version           integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes
  created_by        text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at        timestamptz NOT NULL,
  updated_at        timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name),
  CHECK (enabled = (disabled_by IS NULL) AND enabled = (disabled_at IS NULL) AND (disabled_reason IS NULL OR disabled_by IS NOT NULL)),
  CHECK ((kind = 'builtin') = (description IS NULL) AND (kind = 'builtin') = (parameters IS NULL) AND (kind = 'builtin') = (config IS NULL)),
  CHECK (kind = 'builtin' OR scope IS NOT NULL AND requires_approval IS NOT NULL AND serial IS NOT NULL)
);
CALL lk_protect('agent_skills');

-- +goose Down
DROP TABLE agent_skills;
