-- Lanes: one row each, which stays. The deciding statements stand in
-- lane.sqlite.sql: SQLite has no functions of its own to publish.

-- +goose Up
CREATE TABLE agent_locks (
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

-- +goose Down
DROP TABLE agent_locks;
