-- Threads: conversations, each with one outside person over one channel, the lock
-- by which one execution at a time speaks in them, and what was spoken.

-- +goose Up
CREATE TABLE threads (
  workspace_id        TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                  TEXT NOT NULL,
  channel             TEXT NOT NULL CHECK (length(channel) BETWEEN 1 AND 64),
  address             TEXT NOT NULL CHECK (length(address) BETWEEN 1 AND 512),
  active_execution_id TEXT,
  lock_stack          TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(lock_stack)),
  execution_locked_at INTEGER,
  parked_by           TEXT,
  parked_until        INTEGER,
  policy              TEXT NOT NULL DEFAULT 'queue' CHECK (policy IN ('queue', 'supersede', 'hand_over')),
  next_seq            INTEGER NOT NULL DEFAULT 1 CHECK (next_seq > 0),
  metadata            TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
  created_at          INTEGER NOT NULL,
  updated_at          INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, channel, address),
  CHECK ((active_execution_id IS NULL) = (execution_locked_at IS NULL)),
  CHECK ((parked_by IS NULL) = (parked_until IS NULL))
) STRICT;
CREATE INDEX threads_newest ON threads (workspace_id, created_at DESC, id DESC);
CREATE INDEX threads_active ON threads (workspace_id, active_execution_id) WHERE active_execution_id IS NOT NULL;

CREATE TABLE messages (
  workspace_id TEXT NOT NULL,
  id           TEXT NOT NULL,
  thread_id    TEXT NOT NULL,
  seq          INTEGER NOT NULL CHECK (seq > 0),
  role         TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
  body         TEXT NOT NULL CHECK (length(body) <= 65536),
  execution_id TEXT,
  key          TEXT CHECK (length(key) BETWEEN 1 AND 255),
  data         TEXT CHECK (json_valid(data)),
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, thread_id, seq),
  FOREIGN KEY (workspace_id, thread_id) REFERENCES threads (workspace_id, id) ON DELETE CASCADE
) STRICT;
CREATE UNIQUE INDEX messages_key ON messages (workspace_id, thread_id, key) WHERE key IS NOT NULL;

CREATE INDEX outbox_queued ON outbox (workspace_id, order_key, seq) WHERE status = 'queued';

-- +goose Down
DROP INDEX outbox_queued;
DROP TABLE messages;
DROP TABLE threads;
