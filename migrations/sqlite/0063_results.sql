-- Results of attempts at tasks, for who waits for one: copies that live an hour. The tasks' own rows
-- keep what counts.
-- oldest: 46

-- +goose Up
CREATE TABLE results (
  workspace_id TEXT NOT NULL,
  task_id      TEXT NOT NULL,
  attempt      INTEGER NOT NULL,
  value        TEXT NOT NULL CHECK (octet_length(value) BETWEEN 1 AND 262144), -- JSON
  stored_at    INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, task_id, attempt),
  FOREIGN KEY (workspace_id, task_id, attempt) REFERENCES agent_task_attempts (workspace_id, task_id, number) ON DELETE CASCADE,
  CHECK (stored_at < expires_at)
) STRICT;
CREATE INDEX results_expired ON results (workspace_id, expires_at);

-- +goose Down
DROP TABLE results;
