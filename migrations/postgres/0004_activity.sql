-- The activity log: one row per action, never changed.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE agent_activity (
  workspace_id        uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                  uuid NOT NULL,
  agent               text NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  surface             text NOT NULL CHECK (surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk')),
  skill_name          text CHECK (length(skill_name) BETWEEN 1 AND 255),
  skill_id            uuid,
  status              text NOT NULL CHECK (status IN ('success', 'error', 'pending_approval', 'skipped')),
  input               jsonb,
  output              jsonb,
  error_message       text,
  token_usage         jsonb,
  model               text,
  cost_usd            numeric(14, 6),
  duration_ms         bigint,
  trace_id            text NOT NULL,
  conversation_id     text GENERATED ALWAYS AS (trace_id) STORED, -- the name dashboards of this kind use
  execution_id        uuid,
  parent_execution_id uuid,
  attempt             integer,
  thread_id           uuid,
  created_at          timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id)
);
CREATE INDEX agent_activity_newest ON agent_activity (workspace_id, created_at DESC, id DESC);
CREATE INDEX agent_activity_trace ON agent_activity (workspace_id, trace_id, created_at, id);
CREATE INDEX agent_activity_conversation ON agent_activity (conversation_id, created_at);
CREATE INDEX agent_activity_skill ON agent_activity (workspace_id, skill_name, created_at DESC) WHERE skill_name IS NOT NULL;
CREATE INDEX agent_activity_execution ON agent_activity (workspace_id, execution_id, created_at) WHERE execution_id IS NOT NULL;
CALL lk_protect('agent_activity', 'append');

-- +goose Down
DROP TABLE agent_activity;
