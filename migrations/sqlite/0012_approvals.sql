-- Calls of skills that wait for a person.

-- +goose Up
CREATE TABLE approvals (
  workspace_id     TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id               TEXT NOT NULL,
  skill            TEXT NOT NULL CHECK (length(skill) BETWEEN 1 AND 255),
  skill_id         TEXT,
  arguments        TEXT NOT NULL CHECK (json_valid(arguments)),
  digest           TEXT NOT NULL CHECK (length(digest) BETWEEN 1 AND 100),
  why              TEXT,
  execution_id     TEXT NOT NULL,
  call_id          TEXT NOT NULL CHECK (length(call_id) BETWEEN 1 AND 64),
  subject          TEXT CHECK (length(subject) BETWEEN 1 AND 255),
  agent            TEXT NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  surface          TEXT NOT NULL CHECK (surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk')),
  trace_id         TEXT NOT NULL,
  status           TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'executed')),
  reason           TEXT,
  edited_arguments TEXT CHECK (json_valid(edited_arguments)),
  result           TEXT CHECK (json_valid(result)),
  error            TEXT,
  requested_at     INTEGER NOT NULL,
  expires_at       INTEGER NOT NULL,
  decided_at       INTEGER,
  decided_by       TEXT,
  started_at       INTEGER,
  executed_at      INTEGER,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, execution_id, call_id),
  CHECK ((status = 'pending') = (decided_at IS NULL)),
  CHECK ((status = 'executed') = (executed_at IS NOT NULL))
) STRICT;
CREATE INDEX approvals_pending ON approvals (workspace_id, expires_at) WHERE status = 'pending';
CREATE INDEX approvals_status ON approvals (workspace_id, status, requested_at DESC, id DESC);
CREATE INDEX approvals_newest ON approvals (workspace_id, requested_at DESC, id DESC);

-- +goose Down
DROP TABLE approvals;
