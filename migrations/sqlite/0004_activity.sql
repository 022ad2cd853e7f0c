-- The activity log: one row per action, never changed.

-- +goose Up
CREATE TABLE agent_activity (
  workspace_id        TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                  TEXT NOT NULL,
  agent               TEXT NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  surface             TEXT NOT NULL CHECK (surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk')),
  skill_name          TEXT CHECK (length(skill_name) BETWEEN 1 AND 255),
  skill_id            TEXT,
  status              TEXT NOT NULL CHECK (status IN ('success', 'error', 'pending_approval', 'skipped')),
  input               TEXT CHECK (json_valid(input)),
  output              TEXT CHECK (json_valid(output)),
  error_message       TEXT,
  token_usage         TEXT CHECK (json_valid(token_usage)),
  model               TEXT,
  cost_usd            REAL,
  duration_ms         INTEGER,
  trace_id            TEXT NOT NULL,
  conversation_id     TEXT GENERATED ALWAYS AS (trace_id) STORED,
  execution_id        TEXT,
  parent_execution_id TEXT,
  attempt             INTEGER,
  thread_id           TEXT,
  created_at          INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT;
CREATE INDEX agent_activity_newest ON agent_activity (workspace_id, created_at DESC, id DESC);
CREATE INDEX agent_activity_trace ON agent_activity (workspace_id, trace_id, created_at, id);
CREATE INDEX agent_activity_conversation ON agent_activity (conversation_id, created_at);
CREATE INDEX agent_activity_skill ON agent_activity (workspace_id, skill_name, created_at DESC) WHERE skill_name IS NOT NULL;
CREATE INDEX agent_activity_execution ON agent_activity (workspace_id, execution_id, created_at) WHERE execution_id IS NOT NULL;

-- +goose Down
DROP TABLE agent_activity;
