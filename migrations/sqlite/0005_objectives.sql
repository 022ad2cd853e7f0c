-- Objectives and the steps of their plans.

-- +goose Up
CREATE TABLE agent_objectives (
  workspace_id   TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id             TEXT NOT NULL,
  title          TEXT NOT NULL CHECK (length(title) BETWEEN 1 AND 255),
  description    TEXT NOT NULL DEFAULT '',
  priority       INTEGER NOT NULL DEFAULT 5 CHECK (priority BETWEEN 1 AND 10),
  done_criterion TEXT NOT NULL DEFAULT '',
  status         TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'completed')),
  status_reason  TEXT,
  plan_version   INTEGER NOT NULL DEFAULT 0,
  plan_attempts  INTEGER NOT NULL DEFAULT 0, -- tries since the last plan, counted before the work starts
  summary        TEXT,
  created_by     TEXT NOT NULL,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  completed_at   INTEGER,
  PRIMARY KEY (workspace_id, id)
) STRICT;
CREATE INDEX agent_objectives_due ON agent_objectives (workspace_id, priority DESC, created_at) WHERE status = 'active';

CREATE TABLE objective_steps (
  workspace_id   TEXT NOT NULL,
  objective_id   TEXT NOT NULL,
  plan_version   INTEGER NOT NULL CHECK (plan_version > 0),
  number         INTEGER NOT NULL CHECK (number > 0),
  title          TEXT NOT NULL CHECK (length(title) BETWEEN 1 AND 255),
  skill          TEXT,
  inputs         TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(inputs)),
  done_criterion TEXT NOT NULL DEFAULT '',
  status         TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'done', 'failed')),
  attempts       INTEGER NOT NULL DEFAULT 0,
  result         TEXT,
  execution_id   TEXT,
  created_at     INTEGER NOT NULL,
  ended_at       INTEGER,
  PRIMARY KEY (workspace_id, objective_id, plan_version, number),
  FOREIGN KEY (workspace_id, objective_id) REFERENCES agent_objectives (workspace_id, id) ON DELETE CASCADE
) STRICT;

-- +goose Down
DROP TABLE objective_steps;
DROP TABLE agent_objectives;
