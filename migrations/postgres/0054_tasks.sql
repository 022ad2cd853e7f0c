-- Tasks: durable work for agents, with attempts, dependencies and a log, and the projects and
-- milestones that they belong to.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE projects (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL,
  name         text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  description  text NOT NULL DEFAULT '' CHECK (length(description) <= 16384),
  version      integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes
  created_by   text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name)
);
CREATE INDEX projects_newest ON projects (workspace_id, created_at DESC, id DESC);
CALL lk_protect('projects');

CREATE TABLE milestones (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL,
  project_id   uuid NOT NULL,
  name         text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  description  text NOT NULL DEFAULT '' CHECK (length(description) <= 16384),
  due_at       timestamptz,
  version      integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes
  created_by   text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, project_id, name),
  FOREIGN KEY (workspace_id, project_id) REFERENCES projects (workspace_id, id)
);
CREATE INDEX milestones_newest ON milestones (workspace_id, created_at DESC, id DESC);
CALL lk_protect('milestones');

CREATE TABLE agent_tasks (
  workspace_id               uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                         uuid NOT NULL,
  title                      text NOT NULL CHECK (length(title) BETWEEN 1 AND 255),
  description                text NOT NULL DEFAULT '' CHECK (length(description) <= 16384),
  task_type                  text CHECK (length(task_type) BETWEEN 1 AND 100),
  status                     text NOT NULL DEFAULT 'PENDING'
                               CHECK (status IN ('PENDING', 'ASSIGNED', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'ABORTED', 'ARCHIVED')),
  status_reason              text CHECK (length(status_reason) <= 500),
  cancelled                  boolean NOT NULL DEFAULT false, -- ABORTED for good
  priority                   integer NOT NULL DEFAULT 5 CHECK (priority BETWEEN 1 AND 10), -- 10 comes first
  agent_id                   uuid,
  session_key                text CHECK (length(session_key) <= 255),
  attempt                    integer NOT NULL DEFAULT 0 CHECK (attempt >= 0), -- the latest; the fence of the task
  progress_percent           integer NOT NULL DEFAULT 0 CHECK (progress_percent BETWEEN 0 AND 100),
  current_step               text CHECK (length(current_step) <= 1000),
  estimated_duration_minutes integer CHECK (estimated_duration_minutes > 0),
  estimated_completion_at    timestamptz,
  retry_count                integer NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
  max_retries                integer NOT NULL DEFAULT 3 CHECK (max_retries BETWEEN 0 AND 100),
  retry_backoff_seconds      integer NOT NULL DEFAULT 300 CHECK (retry_backoff_seconds BETWEEN 1 AND 21600),
  next_attempt_at            timestamptz, -- of an aborted one: when its backoff is over
  last_error                 text CHECK (length(last_error) <= 16384),
  summary                    text CHECK (length(summary) <= 16384),
  input_context              text NOT NULL DEFAULT '{}', -- JSON, as are the next three
  output_result              text,
  checkpoint_data            text,
  metadata                   text NOT NULL DEFAULT '{}',
  checkpoint_version         integer NOT NULL DEFAULT 0 CHECK (checkpoint_version >= 0), -- counts checkpoints
  tags                       text NOT NULL DEFAULT '[]', -- a JSON array, as in agent_task_tags
  project_id                 uuid,
  milestone_id               uuid,
  thread_id                  uuid,
  trust                      text NOT NULL DEFAULT 'operator' CHECK (trust IN ('operator', 'outside')),
  version                    integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts all changes
  created_by                 text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at                 timestamptz NOT NULL,
  updated_at                 timestamptz NOT NULL,
  assigned_at                timestamptz,
  started_at                 timestamptz,
  completed_at               timestamptz,
  failed_at                  timestamptz,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, project_id) REFERENCES projects (workspace_id, id),
  FOREIGN KEY (workspace_id, milestone_id) REFERENCES milestones (workspace_id, id),
  FOREIGN KEY (workspace_id, thread_id) REFERENCES threads (workspace_id, id),
  CHECK (NOT cancelled OR status IN ('ABORTED', 'ARCHIVED')),
  CHECK (status <> 'COMPLETED' OR completed_at IS NOT NULL),
  CHECK (next_attempt_at IS NULL OR status = 'ABORTED')
);
CREATE INDEX agent_tasks_newest ON agent_tasks (workspace_id, created_at DESC, id DESC);
CREATE INDEX agent_tasks_urgent ON agent_tasks (workspace_id, priority DESC, created_at, id);
CREATE INDEX agent_tasks_status ON agent_tasks (workspace_id, status, created_at DESC, id DESC);
CREATE INDEX agent_tasks_agent ON agent_tasks (workspace_id, agent_id, created_at DESC, id DESC) WHERE agent_id IS NOT NULL;
CREATE INDEX agent_tasks_project ON agent_tasks (workspace_id, project_id) WHERE project_id IS NOT NULL;
CREATE INDEX agent_tasks_milestone ON agent_tasks (workspace_id, milestone_id) WHERE milestone_id IS NOT NULL;
CREATE INDEX agent_tasks_of_thread ON agent_tasks (workspace_id, thread_id) WHERE thread_id IS NOT NULL;
-- One active task per thread.
CREATE UNIQUE INDEX agent_tasks_thread ON agent_tasks (workspace_id, thread_id)
  WHERE thread_id IS NOT NULL AND status IN ('ASSIGNED', 'RUNNING');
CALL lk_protect('agent_tasks');

CREATE TABLE agent_task_tags (
  workspace_id uuid NOT NULL,
  tag          text COLLATE "C" NOT NULL CHECK (length(tag) BETWEEN 1 AND 50),
  task_id      uuid NOT NULL,
  PRIMARY KEY (workspace_id, tag, task_id),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX agent_task_tags_task ON agent_task_tags (workspace_id, task_id);
CALL lk_protect('agent_task_tags');

CREATE TABLE agent_task_attempts (
  workspace_id       uuid NOT NULL,
  task_id            uuid NOT NULL,
  number             integer NOT NULL CHECK (number > 0),
  agent_id           uuid NOT NULL,
  session_key        text CHECK (length(session_key) <= 255),
  started_at         timestamptz NOT NULL,
  ended_at           timestamptz,
  outcome            text CHECK (outcome IN ('completed', 'failed', 'aborted', 'cancelled', 'paused')),
  error              text CHECK (length(error) <= 16384),
  checkpoint_version integer NOT NULL DEFAULT 0 CHECK (checkpoint_version >= 0), -- that it has written last
  PRIMARY KEY (workspace_id, task_id, number),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE,
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
CALL lk_protect('agent_task_attempts');

CREATE TABLE agent_task_dependencies (
  workspace_id uuid NOT NULL,
  task_id      uuid NOT NULL,
  depends_on   uuid NOT NULL,
  PRIMARY KEY (workspace_id, task_id, depends_on),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE,
  FOREIGN KEY (workspace_id, depends_on) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE,
  CHECK (task_id <> depends_on)
);
CREATE INDEX agent_task_dependencies_blocks ON agent_task_dependencies (workspace_id, depends_on, task_id);
CALL lk_protect('agent_task_dependencies');

CREATE TABLE agent_task_logs (
  workspace_id    uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id              uuid NOT NULL,
  task_id         uuid NOT NULL,
  level           text NOT NULL CHECK (level IN ('DEBUG', 'INFO', 'WARN', 'ERROR', 'CRITICAL')),
  event           text NOT NULL CHECK (event IN ('created', 'state_transition', 'task_assigned', 'progress_update', 'checkpoint',
                    'task_recovery', 'timeout', 'conflict', 'dependency_cycle', 'budget', 'error')),
  message         text NOT NULL CHECK (length(message) BETWEEN 1 AND 1000),
  details         text, -- JSON
  previous_status text,
  new_status      text,
  attempt         integer,
  agent_id        uuid,
  session_key     text CHECK (length(session_key) <= 255),
  stack_trace     text CHECK (length(stack_trace) <= 32768),
  actor           text NOT NULL CHECK (length(actor) BETWEEN 1 AND 255), -- who did it
  trace_id        text,
  created_at      timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id)
);
CREATE INDEX agent_task_logs_newest ON agent_task_logs (workspace_id, task_id, created_at DESC, id DESC);
CALL lk_protect('agent_task_logs', 'append');

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN TG_OP = 'INSERT' THEN 'task.created' ELSE 'task.status_changed' END, NEW.id,
    jsonb_strip_nulls(jsonb_build_object('title', NEW.title, 'status', NEW.status,
      'previous_status', CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, 'cancelled', NEW.cancelled, 'priority', NEW.priority, 'attempt', NEW.attempt)),
    CASE WHEN TG_OP = 'INSERT' THEN NEW.created_at ELSE lk_now() END);
  RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lk_event_of_task() FROM PUBLIC; -- triggers need no right to it
CREATE TRIGGER event_added AFTER INSERT ON agent_tasks FOR EACH ROW EXECUTE FUNCTION lk_event_of_task();
CREATE TRIGGER event_changed AFTER UPDATE OF status, cancelled ON agent_tasks FOR EACH ROW
  WHEN (OLD.status <> NEW.status OR OLD.cancelled <> NEW.cancelled) EXECUTE FUNCTION lk_event_of_task();

-- +goose Down
DROP TABLE agent_task_logs;
DROP TABLE agent_task_dependencies;
DROP TABLE agent_task_attempts;
DROP TABLE agent_task_tags;
DROP TABLE agent_tasks;
DROP FUNCTION lk_event_of_task();
DROP TABLE milestones;
DROP TABLE projects;
