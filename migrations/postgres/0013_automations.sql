-- Skills that run by themselves: at times, or when something happens.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE agent_automations (
  workspace_id    uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id              uuid NOT NULL,
  name            text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  skill           text COLLATE "C" NOT NULL CHECK (length(skill) BETWEEN 1 AND 64),
  input           text NOT NULL DEFAULT '{}' CHECK (length(input) BETWEEN 2 AND 32768), -- a JSON object
  cron            text CHECK (length(cron) BETWEEN 1 AND 200),
  time_zone       text CHECK (length(time_zone) BETWEEN 1 AND 64),
  event           text COLLATE "C" CHECK (length(event) BETWEEN 1 AND 100),
  enabled         boolean NOT NULL DEFAULT true,
  disabled_by     text CHECK (disabled_by IN ('human', 'self_healing')),
  disabled_reason text CHECK (length(disabled_reason) BETWEEN 1 AND 500),
  disabled_at     timestamptz,
  next_run_at     timestamptz, -- null: disabled, or it waits for an event
  event_xid       bigint CHECK (event_xid >= 0), -- up to where its events have been dealt with
  event_id        bigint CHECK (event_id >= 0),
  last_run_at     timestamptz,
  last_status     text CHECK (last_status IN ('success', 'error', 'pending_approval', 'skipped')),
  last_trace_id   text,
  version         integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes by people
  created_by      text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at      timestamptz NOT NULL,
  updated_at      timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name),
  CHECK ((cron IS NULL) <> (event IS NULL) AND (cron IS NULL) = (time_zone IS NULL)),
  CHECK (enabled = (disabled_by IS NULL) AND enabled = (disabled_at IS NULL) AND (disabled_reason IS NULL OR disabled_by IS NOT NULL)),
  CHECK (enabled AND cron IS NOT NULL OR next_run_at IS NULL),
  CHECK ((event IS NULL) = (event_xid IS NULL) AND (event IS NULL) = (event_id IS NULL))
);
CREATE INDEX agent_automations_due ON agent_automations (workspace_id, next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX agent_automations_skill ON agent_automations (workspace_id, skill);
CREATE INDEX agent_automations_event ON agent_automations (workspace_id, event) WHERE event IS NOT NULL;
CALL lk_protect('agent_automations');

-- +goose Down
DROP TABLE agent_automations;
