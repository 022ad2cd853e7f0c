-- Failures that a person has dismissed, and what finds failures and earlier decisions without reading
-- the rest.
-- oldest: 46

-- +goose Up
CREATE TABLE failure_dismissals (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  kind         TEXT NOT NULL CHECK (kind IN ('task', 'execution', 'message', 'delivery')),
  id           TEXT NOT NULL,
  failed_at    INTEGER NOT NULL,
  dismissed_by TEXT NOT NULL CHECK (length(dismissed_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, kind, id)
) STRICT;
CREATE INDEX outbox_failed ON outbox (workspace_id, updated_at DESC) WHERE status IN ('failed', 'uncertain');
CREATE INDEX inbox_parked ON inbox (workspace_id, updated_at DESC) WHERE status = 'parked';
CREATE INDEX approvals_skill ON approvals (workspace_id, skill, requested_at DESC);

-- +goose Down
DROP INDEX approvals_skill;
DROP INDEX inbox_parked;
DROP INDEX outbox_failed;
DROP TABLE failure_dismissals;
