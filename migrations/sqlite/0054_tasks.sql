-- Tasks: durable work for agents, with attempts, dependencies and a log, and the projects and
-- milestones that they belong to.
-- oldest: 46

-- +goose Up
CREATE TABLE projects (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  description  TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 16384),
  version      INTEGER NOT NULL DEFAULT 1 CHECK (version > 0),
  created_by   TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name)
) STRICT;
CREATE INDEX projects_newest ON projects (workspace_id, created_at DESC, id DESC);

CREATE TABLE milestones (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  project_id   TEXT NOT NULL,
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  description  TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 16384),
  due_at       INTEGER,
  version      INTEGER NOT NULL DEFAULT 1 CHECK (version > 0),
  created_by   TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, project_id, name),
  FOREIGN KEY (workspace_id, project_id) REFERENCES projects (workspace_id, id)
) STRICT;
CREATE INDEX milestones_newest ON milestones (workspace_id, created_at DESC, id DESC);

CREATE TABLE agent_tasks (
  workspace_id               TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                         TEXT NOT NULL,
  title                      TEXT NOT NULL CHECK (length(title) BETWEEN 1 AND 255),
  description                TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 16384),
  task_type                  TEXT CHECK (length(task_type) BETWEEN 1 AND 100),
  status                     TEXT NOT NULL DEFAULT 'PENDING'
                               CHECK (status IN ('PENDING', 'ASSIGNED', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'ABORTED', 'ARCHIVED')),
  status_reason              TEXT CHECK (length(status_reason) <= 500),
  cancelled                  INTEGER NOT NULL DEFAULT 0 CHECK (cancelled IN (0, 1)),
  priority                   INTEGER NOT NULL DEFAULT 5 CHECK (priority BETWEEN 1 AND 10),
  agent_id                   TEXT,
  session_key                TEXT CHECK (length(session_key) <= 255),
  attempt                    INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  progress_percent           INTEGER NOT NULL DEFAULT 0 CHECK (progress_percent BETWEEN 0 AND 100),
  current_step               TEXT CHECK (length(current_step) <= 1000),
  estimated_duration_minutes INTEGER CHECK (estimated_duration_minutes > 0),
  estimated_completion_at    INTEGER,
  retry_count                INTEGER NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
  max_retries                INTEGER NOT NULL DEFAULT 3 CHECK (max_retries BETWEEN 0 AND 100),
  retry_backoff_seconds      INTEGER NOT NULL DEFAULT 300 CHECK (retry_backoff_seconds BETWEEN 1 AND 21600),
  next_attempt_at            INTEGER,
  last_error                 TEXT CHECK (length(last_error) <= 16384),
  summary                    TEXT CHECK (length(summary) <= 16384),
  input_context              TEXT NOT NULL DEFAULT '{}',
  output_result              TEXT,
  checkpoint_data            TEXT,
  metadata                   TEXT NOT NULL DEFAULT '{}',
  checkpoint_version         INTEGER NOT NULL DEFAULT 0 CHECK (checkpoint_version >= 0),
  tags                       TEXT NOT NULL DEFAULT '[]',
  project_id                 TEXT,
  milestone_id               TEXT,
  thread_id                  TEXT,
  trust                      TEXT NOT NULL DEFAULT 'operator' CHECK (trust IN ('operator', 'outside')),
  version                    INTEGER NOT NULL DEFAULT 1 CHECK (version > 0),
  created_by                 TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at                 INTEGER NOT NULL,
  updated_at                 INTEGER NOT NULL,
  assigned_at                INTEGER,
  started_at                 INTEGER,
  completed_at               INTEGER,
  failed_at                  INTEGER,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, project_id) REFERENCES projects (workspace_id, id),
  FOREIGN KEY (workspace_id, milestone_id) REFERENCES milestones (workspace_id, id),
  FOREIGN KEY (workspace_id, thread_id) REFERENCES threads (workspace_id, id),
  CHECK (NOT cancelled OR status IN ('ABORTED', 'ARCHIVED')),
  CHECK (status <> 'COMPLETED' OR completed_at IS NOT NULL),
  CHECK (next_attempt_at IS NULL OR status = 'ABORTED')
) STRICT;
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

CREATE TABLE agent_task_tags (
  workspace_id TEXT NOT NULL,
  tag          TEXT NOT NULL CHECK (length(tag) BETWEEN 1 AND 50),
  task_id      TEXT NOT NULL,
  PRIMARY KEY (workspace_id, tag, task_id),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX agent_task_tags_task ON agent_task_tags (workspace_id, task_id);

CREATE TABLE agent_task_attempts (
  workspace_id       TEXT NOT NULL,
  task_id            TEXT NOT NULL,
  number             INTEGER NOT NULL CHECK (number > 0),
  agent_id           TEXT NOT NULL,
  session_key        TEXT CHECK (length(session_key) <= 255),
  started_at         INTEGER NOT NULL,
  ended_at           INTEGER,
  outcome            TEXT CHECK (outcome IN ('completed', 'failed', 'aborted', 'cancelled', 'paused')),
  error              TEXT CHECK (length(error) <= 16384),
  checkpoint_version INTEGER NOT NULL DEFAULT 0 CHECK (checkpoint_version >= 0),
  PRIMARY KEY (workspace_id, task_id, number),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE,
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;

CREATE TABLE agent_task_dependencies (
  workspace_id TEXT NOT NULL,
  task_id      TEXT NOT NULL,
  depends_on   TEXT NOT NULL,
  PRIMARY KEY (workspace_id, task_id, depends_on),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE,
  FOREIGN KEY (workspace_id, depends_on) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE,
  CHECK (task_id <> depends_on)
) STRICT;
CREATE INDEX agent_task_dependencies_blocks ON agent_task_dependencies (workspace_id, depends_on, task_id);

CREATE TABLE agent_task_logs (
  workspace_id    TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id              TEXT NOT NULL,
  task_id         TEXT NOT NULL,
  level           TEXT NOT NULL CHECK (level IN ('DEBUG', 'INFO', 'WARN', 'ERROR', 'CRITICAL')),
  event           TEXT NOT NULL CHECK (event IN ('created', 'state_transition', 'task_assigned', 'progress_update', 'checkpoint',
                    'task_recovery', 'timeout', 'conflict', 'dependency_cycle', 'budget', 'error')),
  message         TEXT NOT NULL CHECK (length(message) BETWEEN 1 AND 1000),
  details         TEXT,
  previous_status TEXT,
  new_status      TEXT,
  attempt         INTEGER,
  agent_id        TEXT,
  session_key     TEXT CHECK (length(session_key) <= 255),
  stack_trace     TEXT CHECK (length(stack_trace) <= 32768),
  actor           TEXT NOT NULL CHECK (length(actor) BETWEEN 1 AND 255),
  trace_id        TEXT,
  created_at      INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id)
) STRICT;
CREATE INDEX agent_task_logs_newest ON agent_task_logs (workspace_id, task_id, created_at DESC, id DESC);

-- The log is append-only. Its rows go with their workspace alone.
-- +goose StatementBegin
CREATE TRIGGER agent_task_logs_kept BEFORE UPDATE ON agent_task_logs BEGIN
  SELECT RAISE(ABORT, 'agent_task_logs is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agent_task_logs_not_deleted BEFORE DELETE ON agent_task_logs
WHEN EXISTS (SELECT 1 FROM workspaces w WHERE w.id = OLD.workspace_id) BEGIN
  SELECT RAISE(ABORT, 'agent_task_logs is append-only');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER agent_tasks_added AFTER INSERT ON agent_tasks BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'task.created', NEW.id, NULL,
    json_object('title', NEW.title, 'status', NEW.status, 'cancelled', json(CASE WHEN NEW.cancelled THEN 'true' ELSE 'false' END), 'priority', NEW.priority,
      'attempt', NEW.attempt), NEW.created_at);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER agent_tasks_changed AFTER UPDATE OF status, cancelled ON agent_tasks WHEN OLD.status <> NEW.status OR OLD.cancelled <> NEW.cancelled BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, 'task.status_changed', NEW.id, NULL,
    json_object('title', NEW.title, 'status', NEW.status, 'previous_status', OLD.status,
      'cancelled', json(CASE WHEN NEW.cancelled THEN 'true' ELSE 'false' END), 'priority', NEW.priority, 'attempt', NEW.attempt), lk_now());
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE agent_task_logs;
DROP TABLE agent_task_dependencies;
DROP TABLE agent_task_attempts;
DROP TABLE agent_task_tags;
DROP TABLE agent_tasks;
DROP TABLE milestones;
DROP TABLE projects;
