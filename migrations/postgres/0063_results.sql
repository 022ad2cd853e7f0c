-- Results of attempts at tasks, for who waits for one: copies that live an hour. The tasks' own rows
-- keep what counts.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- After a crash of the database there are none, and readers ask the tasks: no need to log.
CREATE UNLOGGED TABLE results (
  workspace_id uuid NOT NULL,
  task_id      uuid NOT NULL,
  attempt      integer NOT NULL,
  value        text NOT NULL CHECK (octet_length(value) BETWEEN 1 AND 262144), -- JSON
  stored_at    timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, task_id, attempt),
  FOREIGN KEY (workspace_id, task_id, attempt) REFERENCES agent_task_attempts (workspace_id, task_id, number) ON DELETE CASCADE,
  CHECK (stored_at < expires_at)
);
CREATE INDEX results_expired ON results (workspace_id, expires_at);
CALL lk_protect('results');

-- +goose Down
DROP TABLE results;
