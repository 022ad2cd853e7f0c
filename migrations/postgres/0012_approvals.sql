-- Calls of skills that wait for a person.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE approvals (
  workspace_id     uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id               uuid NOT NULL,
  skill            text NOT NULL CHECK (length(skill) BETWEEN 1 AND 255),
  skill_id         uuid,
  arguments        jsonb NOT NULL,
  digest           text NOT NULL CHECK (length(digest) BETWEEN 1 AND 100), -- of all that an approval binds
  why              text, -- it waits
  execution_id     uuid NOT NULL,
  call_id          text NOT NULL CHECK (length(call_id) BETWEEN 1 AND 64), -- its place there: "3.1"
  subject          text CHECK (length(subject) BETWEEN 1 AND 255),
  agent            text NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  surface          text NOT NULL CHECK (surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk')),
  trace_id         text NOT NULL,
  status           text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'executed')),
  reason           text, -- it was rejected
  edited_arguments jsonb,
  result           jsonb,
  error            text,
  requested_at     timestamptz NOT NULL,
  expires_at       timestamptz NOT NULL,
  decided_at       timestamptz,
  decided_by       text,
  started_at       timestamptz, -- a call with an effect outside began
  executed_at      timestamptz,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, execution_id, call_id),
  CHECK ((status = 'pending') = (decided_at IS NULL)),
  CHECK ((status = 'executed') = (executed_at IS NOT NULL))
);
CREATE INDEX approvals_pending ON approvals (workspace_id, expires_at) WHERE status = 'pending';
CREATE INDEX approvals_status ON approvals (workspace_id, status, requested_at DESC, id DESC);
CREATE INDEX approvals_newest ON approvals (workspace_id, requested_at DESC, id DESC);
CALL lk_protect('approvals');

-- +goose Down
DROP TABLE approvals;
