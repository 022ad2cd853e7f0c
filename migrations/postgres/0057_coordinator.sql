-- The coordinator: its cycles, its log, commands to it, the circuits of its spawners, and what it
-- keeps of tasks.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- strikes counts the attempts that timed out or died, and raised says that one of them has raised the
-- priority. Tasks with the same queue can be done by the same agents, and the same budgets pay for them.
ALTER TABLE agent_tasks
  ADD COLUMN strikes integer NOT NULL DEFAULT 0 CHECK (strikes >= 0),
  ADD COLUMN raised boolean NOT NULL DEFAULT false,
  ADD COLUMN queue text COLLATE "C" GENERATED ALWAYS AS (md5(
    coalesce(CAST(CAST(metadata AS jsonb) -> 'requiredCapabilities' AS text), '[]') || ' ' || coalesce(CAST(project_id AS text), '')
    || ' ' || coalesce(CAST(milestone_id AS text), ''))) STORED;
CREATE INDEX agent_tasks_queue ON agent_tasks (workspace_id, queue, priority DESC, created_at, id) WHERE status = 'PENDING';
CREATE INDEX agent_tasks_backoff ON agent_tasks (workspace_id, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
ALTER TABLE agent_task_attempts
  ADD COLUMN warned_at timestamptz, -- when its agent was told that it is late
  ADD COLUMN model text CHECK (length(model) BETWEEN 1 AND 255); -- that should serve it

CREATE TABLE coordinator_cycles (
  workspace_id   uuid PRIMARY KEY REFERENCES workspaces (id) ON DELETE CASCADE,
  cycles         bigint NOT NULL DEFAULT 0,
  last_cycle_at  timestamptz NOT NULL,
  watching_since timestamptz NOT NULL, -- cycles have followed each other without a gap since then
  took_ms        integer NOT NULL,
  instance_id    text NOT NULL CHECK (length(instance_id) <= 255),
  reason         text NOT NULL CHECK (length(reason) <= 255), -- what woke the last cycle
  pending        integer NOT NULL,
  running        integer NOT NULL,
  healthy        integer NOT NULL,
  stale          integer NOT NULL,
  assigned       integer NOT NULL,
  recovered      integer NOT NULL,
  failed         integer NOT NULL
) WITH (fillfactor = 50);
CALL lk_protect('coordinator_cycles');

CREATE TABLE coordinator_logs (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL,
  level        text NOT NULL CHECK (level IN ('DEBUG', 'INFO', 'WARN', 'ERROR', 'CRITICAL')),
  event        text NOT NULL CHECK (length(event) BETWEEN 1 AND 100),
  message      text NOT NULL CHECK (length(message) BETWEEN 1 AND 1000),
  details      text, -- JSON
  trace_id     text,
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id)
);
CREATE INDEX coordinator_logs_newest ON coordinator_logs (workspace_id, created_at DESC, id DESC);
CALL lk_protect('coordinator_logs');

CREATE TABLE coordinator_commands (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL, -- ids grow with time
  command      text NOT NULL CHECK (command IN ('reassign_task', 'pause_agent', 'drain_agent', 'recover')),
  agent_id     uuid,
  task_id      uuid,
  reason       text CHECK (length(reason) <= 500),
  created_by   text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   timestamptz NOT NULL,
  done_at      timestamptz,
  outcome      text CHECK (length(outcome) <= 500),
  PRIMARY KEY (workspace_id, id),
  CHECK ((done_at IS NULL) = (outcome IS NULL)),
  CHECK ((command = 'reassign_task') = (task_id IS NOT NULL)),
  CHECK ((command IN ('pause_agent', 'drain_agent')) = (agent_id IS NOT NULL))
);
CREATE INDEX coordinator_commands_open ON coordinator_commands (workspace_id, id) WHERE done_at IS NULL;
CALL lk_protect('coordinator_commands');

CREATE TABLE spawner_circuits (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  target       text NOT NULL CHECK (length(target) BETWEEN 1 AND 2100), -- the spawner, and where it starts agents
  failures     integer NOT NULL CHECK (failures >= 0), -- in a row
  open_until   timestamptz, -- set once there were too many
  last_error   text CHECK (length(last_error) <= 1000),
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, target)
);
CALL lk_protect('spawner_circuits');

-- +goose Down
DROP TABLE spawner_circuits;
DROP TABLE coordinator_commands;
DROP TABLE coordinator_logs;
DROP TABLE coordinator_cycles;
ALTER TABLE agent_task_attempts DROP COLUMN model, DROP COLUMN warned_at;
DROP INDEX agent_tasks_backoff;
DROP INDEX agent_tasks_queue;
ALTER TABLE agent_tasks DROP COLUMN queue, DROP COLUMN raised, DROP COLUMN strikes;
