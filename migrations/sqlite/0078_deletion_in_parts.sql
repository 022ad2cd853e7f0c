-- A closed workspace is one that is being deleted. No lane of it is acquired: a lane refers to an open workspace.
-- oldest: 46

-- +goose Up
ALTER TABLE workspaces ADD COLUMN open INTEGER NOT NULL DEFAULT 1 CHECK (open IN (0, 1));
CREATE UNIQUE INDEX workspaces_open ON workspaces (id, open);
CREATE TABLE agent_locks_new (
  workspace_id   TEXT NOT NULL,
  lane           TEXT NOT NULL CHECK (length(lane) BETWEEN 1 AND 200),
  locked_by      TEXT NOT NULL CHECK (length(locked_by) BETWEEN 1 AND 255),
  token          TEXT,
  fence          INTEGER NOT NULL,
  ttl_ms         INTEGER NOT NULL,
  locked_at      INTEGER NOT NULL,
  expires_at     INTEGER NOT NULL,
  wanted_at      INTEGER,
  wanted_by      TEXT,
  execution_id   TEXT,
  trace_id       TEXT,
  workspace_open INTEGER NOT NULL DEFAULT 1 CHECK (workspace_open IN (0, 1)) CHECK (workspace_open),
  PRIMARY KEY (workspace_id, lane),
  FOREIGN KEY (workspace_id, workspace_open) REFERENCES workspaces (id, open) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO agent_locks_new SELECT *, 1 FROM agent_locks;
DROP TABLE agent_locks;
ALTER TABLE agent_locks_new RENAME TO agent_locks;
-- +goose StatementBegin
CREATE TRIGGER agent_locks_wanted AFTER UPDATE OF wanted_at ON agent_locks WHEN OLD.wanted_at IS NULL AND NEW.wanted_at IS NOT NULL BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'lane.wanted', NEW.lane, NEW.trace_id,
    json_patch('{}', json_object('holder', NEW.locked_by, 'wanted_by', NEW.wanted_by)), lk_now());
END;
-- +goose StatementEnd

-- +goose Down
DELETE FROM workspaces WHERE NOT open;
CREATE TABLE agent_locks_new (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  lane         TEXT NOT NULL CHECK (length(lane) BETWEEN 1 AND 200),
  locked_by    TEXT NOT NULL CHECK (length(locked_by) BETWEEN 1 AND 255),
  token        TEXT,
  fence        INTEGER NOT NULL,
  ttl_ms       INTEGER NOT NULL,
  locked_at    INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  wanted_at    INTEGER,
  wanted_by    TEXT,
  execution_id TEXT,
  trace_id     TEXT,
  PRIMARY KEY (workspace_id, lane)
) STRICT, WITHOUT ROWID;
INSERT INTO agent_locks_new
SELECT workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at, wanted_at, wanted_by, execution_id, trace_id FROM agent_locks;
DROP TABLE agent_locks;
ALTER TABLE agent_locks_new RENAME TO agent_locks;
-- +goose StatementBegin
CREATE TRIGGER agent_locks_wanted AFTER UPDATE OF wanted_at ON agent_locks WHEN OLD.wanted_at IS NULL AND NEW.wanted_at IS NOT NULL BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'lane.wanted', NEW.lane, NEW.trace_id,
    json_patch('{}', json_object('holder', NEW.locked_by, 'wanted_by', NEW.wanted_by)), lk_now());
END;
-- +goose StatementEnd
DROP INDEX workspaces_open;
ALTER TABLE workspaces DROP COLUMN open;
