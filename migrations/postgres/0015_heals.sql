-- What self-healing took away, so that it can be given back, and what people have
-- switched off.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE heals (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL,
  skill        text COLLATE "C" NOT NULL CHECK (length(skill) BETWEEN 1 AND 64),
  code         text NOT NULL CHECK (length(code) BETWEEN 1 AND 64), -- the class of its errors
  failures     integer NOT NULL CHECK (failures > 0),
  automations  text NOT NULL DEFAULT '[]' CHECK (length(automations) <= 65536), -- ids of those that were disabled with it
  status       text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'probing', 'restored', 'undone', 'superseded')),
  probes       integer NOT NULL DEFAULT 0 CHECK (probes >= 0), -- that failed
  probe_at     timestamptz NOT NULL, -- the end of its cool-down
  trace_id     text NOT NULL,
  ended_by     text CHECK (length(ended_by) BETWEEN 1 AND 255),
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id)
);
CREATE UNIQUE INDEX heals_open ON heals (workspace_id, skill) WHERE status IN ('active', 'probing');
CREATE INDEX heals_newest ON heals (workspace_id, created_at DESC, id DESC);
CALL lk_protect('heals');

CREATE TABLE kill_switches (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL,
  scope        text NOT NULL CHECK (scope IN ('workspace', 'agent', 'skill', 'model')),
  target       text COLLATE "C" NOT NULL CHECK (length(target) <= 255), -- '' for the workspace
  reason       text CHECK (length(reason) BETWEEN 1 AND 500),
  set_by       text NOT NULL CHECK (length(set_by) BETWEEN 1 AND 255),
  set_at       timestamptz NOT NULL,
  released_by  text CHECK (length(released_by) BETWEEN 1 AND 255),
  released_at  timestamptz,
  PRIMARY KEY (workspace_id, id),
  CHECK ((scope = 'workspace') = (target = '')),
  CHECK ((released_by IS NULL) = (released_at IS NULL))
);
CREATE UNIQUE INDEX kill_switches_on ON kill_switches (workspace_id, scope, target) WHERE released_at IS NULL;
CREATE INDEX kill_switches_newest ON kill_switches (workspace_id, set_at DESC, id DESC);
CALL lk_protect('kill_switches');

-- Calls that say how a skill does: successes, and errors that are not the caller's.
CREATE INDEX agent_activity_judged ON agent_activity (workspace_id, skill_name, created_at DESC)
  WHERE skill_name IS NOT NULL AND (status = 'success' OR status = 'error' AND coalesce(output ->> 'class', '') IN ('', 'ours', 'theirs'));

-- +goose Down
DROP INDEX agent_activity_judged;
DROP TABLE kill_switches;
DROP TABLE heals;
