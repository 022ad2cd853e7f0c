-- Executions: one surface or agent working on one thing until it stops, and the
-- append-only journal from which it can be resumed.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE executions (
  workspace_id      uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                uuid NOT NULL,
  agent             text NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  surface           text NOT NULL CHECK (surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk')),
  trace_id          text NOT NULL,
  parent_id         uuid,
  subject           text CHECK (length(subject) BETWEEN 1 AND 255), -- what it works on: objective:{id}, …
  slot              text CHECK (length(slot) BETWEEN 1 AND 255),    -- the schedule slot it is the one run of
  status            text NOT NULL CHECK (status IN ('running', 'waiting', 'parked', 'completed', 'failed', 'cancelled', 'stalled')),
  can_inherit_lock  boolean NOT NULL DEFAULT false,
  attempt           integer NOT NULL DEFAULT 1,
  input             jsonb NOT NULL DEFAULT '{}',
  result            jsonb,
  error             text,
  prompt_tokens     bigint NOT NULL DEFAULT 0,
  completion_tokens bigint NOT NULL DEFAULT 0,
  cost_usd          numeric(14, 6) NOT NULL DEFAULT 0,
  created_at        timestamptz NOT NULL,
  updated_at        timestamptz NOT NULL,
  ended_at          timestamptz,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, parent_id) REFERENCES executions (workspace_id, id)
);
CREATE UNIQUE INDEX executions_slot ON executions (workspace_id, surface, slot) WHERE slot IS NOT NULL;
CREATE UNIQUE INDEX executions_unfinished ON executions (workspace_id, subject)
  WHERE subject IS NOT NULL AND status IN ('running', 'waiting', 'parked');
CREATE INDEX executions_trace ON executions (workspace_id, trace_id);
CREATE INDEX executions_newest ON executions (workspace_id, surface, created_at DESC);
CREATE INDEX executions_parent ON executions (workspace_id, parent_id) WHERE parent_id IS NOT NULL;
CALL lk_protect('executions');

-- One row an entry: the starting messages, a model's answer, the start of a call
-- with an effect outside, a call's result, a note. body carries its own shape in
-- format.
CREATE TABLE execution_steps (
  workspace_id uuid NOT NULL,
  execution_id uuid NOT NULL,
  seq          integer NOT NULL CHECK (seq > 0),
  step         integer NOT NULL CHECK (step >= 0),
  kind         text NOT NULL CHECK (kind IN ('input', 'model', 'call', 'result', 'note')),
  status       text NOT NULL CHECK (status IN ('started', 'succeeded', 'failed', 'uncertain')),
  call_id      text,
  format       smallint NOT NULL DEFAULT 1,
  body         jsonb NOT NULL,
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, execution_id, seq),
  FOREIGN KEY (workspace_id, execution_id) REFERENCES executions (workspace_id, id) ON DELETE CASCADE
);
-- A call has one recorded result, whoever runs it.
CREATE UNIQUE INDEX execution_steps_result ON execution_steps (workspace_id, execution_id, call_id) WHERE kind = 'result';
CALL lk_protect('execution_steps', 'append');

-- +goose Down
DROP TABLE execution_steps;
DROP TABLE executions;
