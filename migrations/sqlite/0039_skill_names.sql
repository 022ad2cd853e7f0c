-- Names of skills may have capitals and -: a check can't be changed, so the table is made
-- anew. That two names differ in more than case and separators is decided when one is
-- made: rows of before that don't are kept.
-- oldest: 37

-- +goose Up
ALTER TABLE agent_skills RENAME TO agent_skills_before;
CREATE TABLE agent_skills (
  workspace_id      TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                TEXT NOT NULL,
  name              TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64 AND ltrim(name, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-') = ''
                                         AND ltrim(substr(name, 1, 1), 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz') = ''),
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
  effect            TEXT CHECK (effect IN ('read', 'write')), -- null: its kind's
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name),
  CHECK (enabled = (disabled_by IS NULL) AND enabled = (disabled_at IS NULL) AND (disabled_reason IS NULL OR disabled_by IS NOT NULL)),
  CHECK ((kind = 'builtin') = (description IS NULL) AND (kind = 'builtin') = (parameters IS NULL) AND (kind = 'builtin') = (config IS NULL)),
  CHECK (kind = 'builtin' OR scope IS NOT NULL AND requires_approval IS NOT NULL AND serial IS NOT NULL)
) STRICT;
INSERT INTO agent_skills (workspace_id, id, name, kind, description, parameters, config, scope, requires_approval, serial, timeout_seconds,
  enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at, effect)
SELECT workspace_id, id, name, kind, description, parameters, config, scope, requires_approval, serial, timeout_seconds,
  enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at, effect
  FROM agent_skills_before;
DROP TABLE agent_skills_before;
-- +goose StatementBegin
CREATE TRIGGER agent_skills_added AFTER INSERT ON agent_skills WHEN NOT NEW.enabled BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'skill.disabled', NEW.id, NULL, json_patch('{}', json_object('name', NEW.name, 'by', NEW.disabled_by)), lk_now());
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agent_skills_changed AFTER UPDATE OF enabled ON agent_skills WHEN OLD.enabled <> NEW.enabled BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN NEW.enabled THEN 'skill.enabled' ELSE 'skill.disabled' END, NEW.id, NULL,
    json_patch('{}', json_object('name', NEW.name, 'by', NEW.disabled_by)), lk_now());
END;
-- +goose StatementEnd

-- +goose Down
-- A name with a capital or - has no place in the table of before.
ALTER TABLE agent_skills RENAME TO agent_skills_before;
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
  effect            TEXT CHECK (effect IN ('read', 'write')), -- null: its kind's
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name),
  CHECK (enabled = (disabled_by IS NULL) AND enabled = (disabled_at IS NULL) AND (disabled_reason IS NULL OR disabled_by IS NOT NULL)),
  CHECK ((kind = 'builtin') = (description IS NULL) AND (kind = 'builtin') = (parameters IS NULL) AND (kind = 'builtin') = (config IS NULL)),
  CHECK (kind = 'builtin' OR scope IS NOT NULL AND requires_approval IS NOT NULL AND serial IS NOT NULL)
) STRICT;
INSERT INTO agent_skills (workspace_id, id, name, kind, description, parameters, config, scope, requires_approval, serial, timeout_seconds,
  enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at, effect)
SELECT workspace_id, id, name, kind, description, parameters, config, scope, requires_approval, serial, timeout_seconds,
  enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at, effect
  FROM agent_skills_before
 WHERE ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_') = '' AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = '';
DROP TABLE agent_skills_before;
-- +goose StatementBegin
CREATE TRIGGER agent_skills_added AFTER INSERT ON agent_skills WHEN NOT NEW.enabled BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'skill.disabled', NEW.id, NULL, json_patch('{}', json_object('name', NEW.name, 'by', NEW.disabled_by)), lk_now());
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agent_skills_changed AFTER UPDATE OF enabled ON agent_skills WHEN OLD.enabled <> NEW.enabled BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN NEW.enabled THEN 'skill.enabled' ELSE 'skill.disabled' END, NEW.id, NULL,
    json_patch('{}', json_object('name', NEW.name, 'by', NEW.disabled_by)), lk_now());
END;
-- +goose StatementEnd
