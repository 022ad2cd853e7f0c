-- Agents: who works on tasks, with the latest heartbeat of each, and a short history of heartbeats.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE agents (
  workspace_id               uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                         uuid NOT NULL,
  name                       text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  model                      text CHECK (length(model) BETWEEN 1 AND 255),
  status                     text NOT NULL DEFAULT 'IDLE'
                               CHECK (status IN ('IDLE', 'WORKING', 'DEGRADED', 'ERROR', 'DRAINING', 'TERMINATED')),
  capabilities               text NOT NULL DEFAULT '[]', -- a JSON array, sorted
  coordinator_enabled        boolean NOT NULL DEFAULT true, -- the coordinator may assign tasks to it
  max_concurrent_tasks       integer NOT NULL DEFAULT 1 CHECK (max_concurrent_tasks BETWEEN 1 AND 1000),
  heartbeat_interval_seconds integer NOT NULL DEFAULT 30 CHECK (heartbeat_interval_seconds BETWEEN 1 AND 86400),
  stale_threshold_seconds    integer NOT NULL DEFAULT 180 CHECK (stale_threshold_seconds BETWEEN 1 AND 604800),
  spawner                    text NOT NULL DEFAULT 'pull' CHECK (spawner IN ('http', 'lambda', 'builtin', 'pull')),
  spawner_target             text CHECK (length(spawner_target) BETWEEN 1 AND 2048),
  token_generation           integer NOT NULL DEFAULT 1 CHECK (token_generation > 0), -- of its valid token
  health                     text CHECK (health IN ('healthy', 'degraded', 'stale')), -- NULL until the first heartbeat
  current_task_id            uuid, -- this and the next four are what the latest heartbeat said
  progress_percent           integer CHECK (progress_percent BETWEEN 0 AND 100),
  current_step               text CHECK (length(current_step) <= 1000),
  memory_mb                  double precision CHECK (memory_mb >= 0),
  cpu_percent                double precision CHECK (cpu_percent >= 0), -- of one core
  last_seen_at               timestamptz, -- NULL until the first heartbeat
  next_expected_at           timestamptz,
  idle_since                 timestamptz, -- NULL while it works
  version                    integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes by people, not heartbeats
  created_by                 text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at                 timestamptz NOT NULL,
  updated_at                 timestamptz NOT NULL,
  terminated_at              timestamptz,
  termination_reason         text CHECK (length(termination_reason) <= 500),
  PRIMARY KEY (workspace_id, id),
  CHECK ((status = 'TERMINATED') = (terminated_at IS NOT NULL))
) WITH (fillfactor = 50); -- a heartbeat changes no index
CREATE INDEX agents_newest ON agents (workspace_id, created_at DESC, id DESC);
CREATE INDEX agents_at_work ON agents (workspace_id, id) WHERE terminated_at IS NULL;
CALL lk_protect('agents');

CREATE TABLE agent_heartbeats (
  workspace_id     uuid NOT NULL,
  agent_id         uuid NOT NULL,
  id               uuid NOT NULL,
  status           text NOT NULL CHECK (status IN ('IDLE', 'WORKING', 'DEGRADED', 'ERROR', 'DRAINING')),
  task_id          uuid,
  progress_percent integer CHECK (progress_percent BETWEEN 0 AND 100),
  current_step     text CHECK (length(current_step) <= 1000),
  memory_mb        double precision CHECK (memory_mb >= 0),
  cpu_percent      double precision CHECK (cpu_percent >= 0),
  created_at       timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, agent_id, id), -- ids grow with time
  FOREIGN KEY (workspace_id, agent_id) REFERENCES agents (workspace_id, id) ON DELETE CASCADE
);
CALL lk_protect('agent_heartbeats');

-- How many tasks an agent works on is the number of its open attempts.
CREATE INDEX agent_task_attempts_open ON agent_task_attempts (workspace_id, agent_id, task_id) WHERE ended_at IS NULL;

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_agent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, TG_ARGV[0], NEW.id,
    jsonb_strip_nulls(jsonb_build_object('name', NEW.name, 'status', NEW.status,
      'previous_status', CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, 'health', NEW.health)),
    CASE WHEN TG_OP = 'INSERT' THEN NEW.created_at ELSE lk_now() END);
  RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lk_event_of_agent() FROM PUBLIC; -- triggers need no right to it
CREATE TRIGGER event_added AFTER INSERT ON agents FOR EACH ROW EXECUTE FUNCTION lk_event_of_agent('agent.registered');
CREATE TRIGGER event_changed AFTER UPDATE OF status ON agents FOR EACH ROW
  WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION lk_event_of_agent('agent.status_changed');
CREATE TRIGGER event_stale AFTER UPDATE OF health ON agents FOR EACH ROW
  WHEN (NEW.health = 'stale' AND OLD.health IS DISTINCT FROM 'stale') EXECUTE FUNCTION lk_event_of_agent('agent.stale');

-- +goose Down
DROP INDEX agent_task_attempts_open;
DROP TABLE agent_heartbeats;
DROP TABLE agents;
DROP FUNCTION lk_event_of_agent();
