-- Skills that run by themselves: at times, or when something happens.

-- +goose Up
CREATE TABLE agent_automations (
  workspace_id    TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id              TEXT NOT NULL,
  name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  skill           TEXT NOT NULL CHECK (length(skill) BETWEEN 1 AND 64),
  input           TEXT NOT NULL DEFAULT '{}' CHECK (length(input) BETWEEN 2 AND 32768), -- a JSON object
  cron            TEXT CHECK (length(cron) BETWEEN 1 AND 200),
  time_zone       TEXT CHECK (length(time_zone) BETWEEN 1 AND 64),
  event           TEXT CHECK (length(event) BETWEEN 1 AND 100),
  enabled         INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  disabled_by     TEXT CHECK (disabled_by IN ('human', 'self_healing')),
  disabled_reason TEXT CHECK (length(disabled_reason) BETWEEN 1 AND 500),
  disabled_at     INTEGER,
  next_run_at     INTEGER, -- null: disabled, or it waits for an event
  event_xid       INTEGER CHECK (event_xid >= 0), -- up to where its events have been dealt with
  event_id        INTEGER CHECK (event_id >= 0),
  last_run_at     INTEGER,
  last_status     TEXT CHECK (last_status IN ('success', 'error', 'pending_approval', 'skipped')),
  last_trace_id   TEXT,
  version         INTEGER NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes by people
  created_by      TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name),
  CHECK ((cron IS NULL) <> (event IS NULL) AND (cron IS NULL) = (time_zone IS NULL)),
  CHECK (enabled = (disabled_by IS NULL) AND enabled = (disabled_at IS NULL) AND (disabled_reason IS NULL OR disabled_by IS NOT NULL)),
  CHECK (enabled AND cron IS NOT NULL OR next_run_at IS NULL),
  CHECK ((event IS NULL) = (event_xid IS NULL) AND (event IS NULL) = (event_id IS NULL))
) STRICT;
CREATE INDEX agent_automations_due ON agent_automations (workspace_id, next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX agent_automations_skill ON agent_automations (workspace_id, skill);
CREATE INDEX agent_automations_event ON agent_automations (workspace_id, event) WHERE event IS NOT NULL;

-- +goose Down
DROP TABLE agent_automations;
