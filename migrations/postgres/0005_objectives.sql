-- Objectives and the steps of their plans.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE agent_objectives (
  workspace_id   uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id             uuid NOT NULL,
  title          text NOT NULL CHECK (length(title) BETWEEN 1 AND 255),
  description    text NOT NULL DEFAULT '',
  priority       smallint NOT NULL DEFAULT 5 CHECK (priority BETWEEN 1 AND 10),
  done_criterion text NOT NULL DEFAULT '',
  status         text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'completed')),
  status_reason  text,
  plan_version   integer NOT NULL DEFAULT 0, -- 0: no plan yet
  plan_attempts  integer NOT NULL DEFAULT 0, -- tries since the last plan, counted before the work starts
  summary        text,
  created_by     text NOT NULL,
  created_at     timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL,
  completed_at   timestamptz,
  PRIMARY KEY (workspace_id, id)
);
CREATE INDEX agent_objectives_due ON agent_objectives (workspace_id, priority DESC, created_at) WHERE status = 'active';
CALL lk_protect('agent_objectives');

CREATE TABLE objective_steps (
  workspace_id   uuid NOT NULL,
  objective_id   uuid NOT NULL,
  plan_version   integer NOT NULL CHECK (plan_version > 0),
  number         integer NOT NULL CHECK (number > 0),
  title          text NOT NULL CHECK (length(title) BETWEEN 1 AND 255),
  skill          text,
  inputs         jsonb NOT NULL DEFAULT '{}',
  done_criterion text NOT NULL DEFAULT '',
  status         text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'done', 'failed')),
  attempts       integer NOT NULL DEFAULT 0, -- counted before the work starts
  result         text,
  execution_id   uuid,
  created_at     timestamptz NOT NULL,
  ended_at       timestamptz,
  PRIMARY KEY (workspace_id, objective_id, plan_version, number),
  FOREIGN KEY (workspace_id, objective_id) REFERENCES agent_objectives (workspace_id, id) ON DELETE CASCADE
);
CALL lk_protect('objective_steps');

-- +goose Down
DROP TABLE objective_steps;
DROP TABLE agent_objectives;
