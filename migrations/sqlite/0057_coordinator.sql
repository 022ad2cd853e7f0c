-- The coordinator: its cycles, its log, commands to it, the circuits of its spawners, and what it
-- keeps of tasks.
-- oldest: 46

-- +goose Up
ALTER TABLE agent_tasks ADD COLUMN strikes INTEGER NOT NULL DEFAULT 0 CHECK (strikes >= 0);
ALTER TABLE agent_tasks ADD COLUMN raised INTEGER NOT NULL DEFAULT 0 CHECK (raised IN (0, 1));
ALTER TABLE agent_tasks ADD COLUMN queue TEXT GENERATED ALWAYS AS (
  coalesce(metadata ->> 'requiredCapabilities', '[]') || ' ' || coalesce(project_id, '') || ' ' || coalesce(milestone_id, '')) VIRTUAL;
CREATE INDEX agent_tasks_queue ON agent_tasks (workspace_id, queue, priority DESC, created_at, id) WHERE status = 'PENDING';
CREATE INDEX agent_tasks_backoff ON agent_tasks (workspace_id, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
ALTER TABLE agent_task_attempts ADD COLUMN warned_at INTEGER;
ALTER TABLE agent_task_attempts ADD COLUMN model TEXT CHECK (length(model) BETWEEN 1 AND 255);

CREATE TABLE coordinator_cycles (
  workspace_id   TEXT PRIMARY KEY REFERENCES workspaces (id) ON DELETE CASCADE,
  cycles         INTEGER NOT NULL DEFAULT 0,
  last_cycle_at  INTEGER NOT NULL,
  watching_since INTEGER NOT NULL,
  took_ms        INTEGER NOT NULL,
  instance_id    TEXT NOT NULL CHECK (length(instance_id) <= 255),
  reason         TEXT NOT NULL CHECK (length(reason) <= 255),
  pending        INTEGER NOT NULL,
  running        INTEGER NOT NULL,
  healthy        INTEGER NOT NULL,
  stale          INTEGER NOT NULL,
  assigned       INTEGER NOT NULL,
  recovered      INTEGER NOT NULL,
  failed         INTEGER NOT NULL
) STRICT;

CREATE TABLE coordinator_logs (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  level        TEXT NOT NULL CHECK (level IN ('DEBUG', 'INFO', 'WARN', 'ERROR', 'CRITICAL')),
  event        TEXT NOT NULL CHECK (length(event) BETWEEN 1 AND 100),
  message      TEXT NOT NULL CHECK (length(message) BETWEEN 1 AND 1000),
  details      TEXT,
  trace_id     TEXT,
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT;
CREATE INDEX coordinator_logs_newest ON coordinator_logs (workspace_id, created_at DESC, id DESC);

CREATE TABLE coordinator_commands (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  command      TEXT NOT NULL CHECK (command IN ('reassign_task', 'pause_agent', 'drain_agent', 'recover')),
  agent_id     TEXT,
  task_id      TEXT,
  reason       TEXT CHECK (length(reason) <= 500),
  created_by   TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  done_at      INTEGER,
  outcome      TEXT CHECK (length(outcome) <= 500),
  PRIMARY KEY (workspace_id, id),
  CHECK ((done_at IS NULL) = (outcome IS NULL)),
  CHECK ((command = 'reassign_task') = (task_id IS NOT NULL)),
  CHECK ((command IN ('pause_agent', 'drain_agent')) = (agent_id IS NOT NULL))
) STRICT;
CREATE INDEX coordinator_commands_open ON coordinator_commands (workspace_id, id) WHERE done_at IS NULL;

CREATE TABLE spawner_circuits (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  target       TEXT NOT NULL CHECK (length(target) BETWEEN 1 AND 2100),
  failures     INTEGER NOT NULL CHECK (failures >= 0),
  open_until   INTEGER,
  last_error   TEXT CHECK (length(last_error) <= 1000),
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, target)
) STRICT;

-- +goose Down
DROP TABLE spawner_circuits;
DROP TABLE coordinator_commands;
DROP TABLE coordinator_logs;
DROP TABLE coordinator_cycles;
ALTER TABLE agent_task_attempts DROP COLUMN model;
ALTER TABLE agent_task_attempts DROP COLUMN warned_at;
DROP INDEX agent_tasks_backoff;
DROP INDEX agent_tasks_queue;
ALTER TABLE agent_tasks DROP COLUMN queue;
ALTER TABLE agent_tasks DROP COLUMN raised;
ALTER TABLE agent_tasks DROP COLUMN strikes;
