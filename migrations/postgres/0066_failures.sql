-- Failures that a person has dismissed, and what finds failures and earlier decisions without reading
-- the rest.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE failure_dismissals (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  kind         text NOT NULL CHECK (kind IN ('task', 'execution', 'message', 'delivery')),
  id           uuid NOT NULL,
  failed_at    timestamptz NOT NULL, -- a later failure of the same thing is not dismissed
  dismissed_by text NOT NULL CHECK (length(dismissed_by) BETWEEN 1 AND 255),
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, kind, id)
);
CALL lk_protect('failure_dismissals');
CREATE INDEX outbox_failed ON outbox (workspace_id, updated_at DESC) WHERE status IN ('failed', 'uncertain');
CREATE INDEX inbox_parked ON inbox (workspace_id, updated_at DESC) WHERE status = 'parked';
CREATE INDEX approvals_skill ON approvals (workspace_id, skill, requested_at DESC);

-- +goose Down
DROP INDEX approvals_skill;
DROP INDEX inbox_parked;
DROP INDEX outbox_failed;
DROP TABLE failure_dismissals;
