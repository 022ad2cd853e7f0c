-- What an agent remembers.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE agent_memory (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL,
  agent        text NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  category     text NOT NULL CHECK (length(category) BETWEEN 1 AND 100),
  content      text NOT NULL CHECK (length(content) BETWEEN 1 AND 8000),
  content_hash text NOT NULL, -- of the folded content: the same thing is remembered once
  importance   smallint NOT NULL DEFAULT 5 CHECK (importance BETWEEN 1 AND 10),
  trace_id     text,
  expires_at   timestamptz,
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, agent, content_hash)
);
CREATE INDEX agent_memory_newest ON agent_memory (workspace_id, created_at DESC, id DESC);
CALL lk_protect('agent_memory');

-- +goose Down
DROP TABLE agent_memory;
