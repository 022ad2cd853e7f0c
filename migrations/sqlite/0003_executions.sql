-- Executions: one surface or agent working on one thing until it stops, and the
-- append-only journal from which it can be resumed.

-- +goose Up
CREATE TABLE executions (
  workspace_id      TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                TEXT NOT NULL,
  agent             TEXT NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  surface           TEXT NOT NULL CHECK (surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk')),
  trace_id          TEXT NOT NULL,
  parent_id         TEXT,
  subject           TEXT CHECK (length(subject) BETWEEN 1 AND 255),
  slot              TEXT CHECK (length(slot) BETWEEN 1 AND 255),
  status            TEXT NOT NULL CHECK (status IN ('running', 'waiting', 'parked', 'completed', 'failed', 'cancelled', 'stalled')),
  can_inherit_lock  INTEGER NOT NULL DEFAULT 0 CHECK (can_inherit_lock IN (0, 1)),
  attempt           INTEGER NOT NULL DEFAULT 1,
  input             TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(input)),
  result            TEXT CHECK (json_valid(result)),
  error             TEXT,
  prompt_tokens     INTEGER NOT NULL DEFAULT 0,
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd          REAL NOT NULL DEFAULT 0,
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL,
  ended_at          INTEGER,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, parent_id) REFERENCES executions (workspace_id, id)
) STRICT;
CREATE UNIQUE INDEX executions_slot ON executions (workspace_id, surface, slot) WHERE slot IS NOT NULL;
CREATE UNIQUE INDEX executions_unfinished ON executions (workspace_id, subject)
  WHERE subject IS NOT NULL AND status IN ('running', 'waiting', 'parked');
CREATE INDEX executions_trace ON executions (workspace_id, trace_id);
CREATE INDEX executions_newest ON executions (workspace_id, surface, created_at DESC);
CREATE INDEX executions_parent ON executions (workspace_id, parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE execution_steps (
  workspace_id TEXT NOT NULL,
  execution_id TEXT NOT NULL,
  seq          INTEGER NOT NULL CHECK (seq > 0),
  step         INTEGER NOT NULL CHECK (step >= 0),
  kind         TEXT NOT NULL CHECK (kind IN ('input', 'model', 'call', 'result', 'note')),
  status       TEXT NOT NULL CHECK (status IN ('started', 'succeeded', 'failed', 'uncertain')),
  call_id      TEXT,
  format       INTEGER NOT NULL DEFAULT 1,
  body         TEXT NOT NULL CHECK (json_valid(body)),
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, execution_id, seq),
  FOREIGN KEY (workspace_id, execution_id) REFERENCES executions (workspace_id, id) ON DELETE CASCADE
) STRICT;
CREATE UNIQUE INDEX execution_steps_result ON execution_steps (workspace_id, execution_id, call_id) WHERE kind = 'result';

-- +goose Down
DROP TABLE execution_steps;
DROP TABLE executions;
