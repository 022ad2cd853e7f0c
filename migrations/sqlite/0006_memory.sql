-- What an agent remembers.

-- +goose Up
CREATE TABLE agent_memory (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  agent        TEXT NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  category     TEXT NOT NULL CHECK (length(category) BETWEEN 1 AND 100),
  content      TEXT NOT NULL CHECK (length(content) BETWEEN 1 AND 8000),
  content_hash TEXT NOT NULL,
  importance   INTEGER NOT NULL DEFAULT 5 CHECK (importance BETWEEN 1 AND 10),
  trace_id     TEXT,
  expires_at   INTEGER,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, agent, content_hash)
) STRICT;
CREATE INDEX agent_memory_newest ON agent_memory (workspace_id, created_at DESC, id DESC);

-- +goose Down
DROP TABLE agent_memory;
