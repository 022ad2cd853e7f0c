-- What self-healing took away, so that it can be given back, and what people have
-- switched off.

-- +goose Up
CREATE TABLE heals (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  skill        TEXT NOT NULL CHECK (length(skill) BETWEEN 1 AND 64),
  code         TEXT NOT NULL CHECK (length(code) BETWEEN 1 AND 64), -- the class of its errors
  failures     INTEGER NOT NULL CHECK (failures > 0),
  automations  TEXT NOT NULL DEFAULT '[]' CHECK (length(automations) <= 65536), -- ids of those that were disabled with it
  status       TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'probing', 'restored', 'undone', 'superseded')),
  probes       INTEGER NOT NULL DEFAULT 0 CHECK (probes >= 0), -- that failed
  probe_at     INTEGER NOT NULL, -- the end of its cool-down
  trace_id     TEXT NOT NULL,
  ended_by     TEXT CHECK (length(ended_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT;
CREATE UNIQUE INDEX heals_open ON heals (workspace_id, skill) WHERE status IN ('active', 'probing');
CREATE INDEX heals_newest ON heals (workspace_id, created_at DESC, id DESC);

CREATE TABLE kill_switches (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  scope        TEXT NOT NULL CHECK (scope IN ('workspace', 'agent', 'skill', 'model')),
  target       TEXT NOT NULL CHECK (length(target) <= 255), -- '' for the workspace
  reason       TEXT CHECK (length(reason) BETWEEN 1 AND 500),
  set_by       TEXT NOT NULL CHECK (length(set_by) BETWEEN 1 AND 255),
  set_at       INTEGER NOT NULL,
  released_by  TEXT CHECK (length(released_by) BETWEEN 1 AND 255),
  released_at  INTEGER,
  PRIMARY KEY (workspace_id, id),
  CHECK ((scope = 'workspace') = (target = '')),
  CHECK ((released_by IS NULL) = (released_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX kill_switches_on ON kill_switches (workspace_id, scope, target) WHERE released_at IS NULL;
CREATE INDEX kill_switches_newest ON kill_switches (workspace_id, set_at DESC, id DESC);

-- Calls that say how a skill does: successes, and errors that are not the caller's.
CREATE INDEX agent_activity_judged ON agent_activity (workspace_id, skill_name, created_at DESC)
  WHERE skill_name IS NOT NULL AND (status = 'success' OR status = 'error' AND coalesce(output ->> 'class', '') IN ('', 'ours', 'theirs'));

-- +goose Down
DROP INDEX agent_activity_judged;
DROP TABLE kill_switches;
DROP TABLE heals;
