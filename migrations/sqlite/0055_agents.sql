-- Agents: who works on tasks, with the latest heartbeat of each, and a short history of heartbeats.
-- oldest: 46

-- +goose Up
CREATE TABLE agents (
  workspace_id               TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                         TEXT NOT NULL,
  name                       TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  model                      TEXT CHECK (length(model) BETWEEN 1 AND 255),
  status                     TEXT NOT NULL DEFAULT 'IDLE'
                               CHECK (status IN ('IDLE', 'WORKING', 'DEGRADED', 'ERROR', 'DRAINING', 'TERMINATED')),
  capabilities               TEXT NOT NULL DEFAULT '[]', -- a JSON array, sorted
  coordinator_enabled        INTEGER NOT NULL DEFAULT 1 CHECK (coordinator_enabled IN (0, 1)), -- the coordinator may assign tasks to it
  max_concurrent_tasks       INTEGER NOT NULL DEFAULT 1 CHECK (max_concurrent_tasks BETWEEN 1 AND 1000),
  heartbeat_interval_seconds INTEGER NOT NULL DEFAULT 30 CHECK (heartbeat_interval_seconds BETWEEN 1 AND 86400),
  stale_threshold_seconds    INTEGER NOT NULL DEFAULT 180 CHECK (stale_threshold_seconds BETWEEN 1 AND 604800),
  spawner                    TEXT NOT NULL DEFAULT 'pull' CHECK (spawner IN ('http', 'lambda', 'builtin', 'pull')),
  spawner_target             TEXT CHECK (length(spawner_target) BETWEEN 1 AND 2048),
  token_generation           INTEGER NOT NULL DEFAULT 1 CHECK (token_generation > 0), -- of its valid token
  health                     TEXT CHECK (health IN ('healthy', 'degraded', 'stale')), -- NULL until the first heartbeat
  current_task_id            TEXT, -- this and the next four are what the latest heartbeat said
  progress_percent           INTEGER CHECK (progress_percent BETWEEN 0 AND 100),
  current_step               TEXT CHECK (length(current_step) <= 1000),
  memory_mb                  REAL CHECK (memory_mb >= 0),
  cpu_percent                REAL CHECK (cpu_percent >= 0), -- of one core
  last_seen_at               INTEGER, -- NULL until the first heartbeat
  next_expected_at           INTEGER,
  idle_since                 INTEGER, -- NULL while it works
  version                    INTEGER NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes by people, not heartbeats
  created_by                 TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at                 INTEGER NOT NULL,
  updated_at                 INTEGER NOT NULL,
  terminated_at              INTEGER,
  termination_reason         TEXT CHECK (length(termination_reason) <= 500),
  PRIMARY KEY (workspace_id, id),
  CHECK ((status = 'TERMINATED') = (terminated_at IS NOT NULL))
) STRICT;
CREATE INDEX agents_newest ON agents (workspace_id, created_at DESC, id DESC);
CREATE INDEX agents_at_work ON agents (workspace_id, id) WHERE terminated_at IS NULL;

CREATE TABLE agent_heartbeats (
  workspace_id     TEXT NOT NULL,
  agent_id         TEXT NOT NULL,
  id               TEXT NOT NULL,
  status           TEXT NOT NULL CHECK (status IN ('IDLE', 'WORKING', 'DEGRADED', 'ERROR', 'DRAINING')),
  task_id          TEXT,
  progress_percent INTEGER CHECK (progress_percent BETWEEN 0 AND 100),
  current_step     TEXT CHECK (length(current_step) <= 1000),
  memory_mb        REAL CHECK (memory_mb >= 0),
  cpu_percent      REAL CHECK (cpu_percent >= 0),
  created_at       INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, agent_id, id), -- ids grow with time
  FOREIGN KEY (workspace_id, agent_id) REFERENCES agents (workspace_id, id) ON DELETE CASCADE
) STRICT;

-- How many tasks an agent works on is the number of its open attempts.
CREATE INDEX agent_task_attempts_open ON agent_task_attempts (workspace_id, agent_id, task_id) WHERE ended_at IS NULL;

-- +goose StatementBegin
CREATE TRIGGER agents_added AFTER INSERT ON agents BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'agent.registered', NEW.id, NULL, json_object('name', NEW.name, 'status', NEW.status), NEW.created_at);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agents_changed AFTER UPDATE OF status ON agents WHEN OLD.status <> NEW.status BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'agent.status_changed', NEW.id, NULL,
    json_patch('{}', json_object('name', NEW.name, 'status', NEW.status, 'previous_status', OLD.status, 'health', NEW.health)), lk_now());
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agents_stale AFTER UPDATE OF health ON agents WHEN NEW.health = 'stale' AND OLD.health IS NOT 'stale' BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'agent.stale', NEW.id, NULL,
    json_patch('{}', json_object('name', NEW.name, 'status', NEW.status, 'previous_status', OLD.status, 'health', NEW.health)), lk_now());
END;
-- +goose StatementEnd

-- +goose Down
DROP INDEX agent_task_attempts_open;
DROP TABLE agent_heartbeats;
DROP TABLE agents;
