-- Threads: conversations, each with one outside person over one channel, the lock
-- by which one execution at a time speaks in them, and what was spoken.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE threads (
  workspace_id        uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                  uuid NOT NULL,
  channel             text NOT NULL CHECK (length(channel) BETWEEN 1 AND 64),
  address             text NOT NULL CHECK (length(address) BETWEEN 1 AND 512),
  active_execution_id uuid, -- who has it: the top of lock_stack; an execution, or a queued message for its own send
  lock_stack          jsonb NOT NULL DEFAULT '[]', -- ids, the top last
  execution_locked_at timestamptz, -- taken, or refreshed by a send or a step of who has it
  parked_by           uuid,        -- it waits for the person's answer
  parked_until        timestamptz,
  policy              text NOT NULL DEFAULT 'queue' CHECK (policy IN ('queue', 'supersede', 'hand_over')), -- what others may do meanwhile
  next_seq            bigint NOT NULL DEFAULT 1 CHECK (next_seq > 0), -- of messages, and of what is sent
  metadata            jsonb NOT NULL DEFAULT '{}',
  created_at          timestamptz NOT NULL,
  updated_at          timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, channel, address),
  CHECK ((active_execution_id IS NULL) = (execution_locked_at IS NULL)),
  CHECK ((parked_by IS NULL) = (parked_until IS NULL))
);
CREATE INDEX threads_newest ON threads (workspace_id, created_at DESC, id DESC);
CREATE INDEX threads_active ON threads (workspace_id, active_execution_id) WHERE active_execution_id IS NOT NULL;
CALL lk_protect('threads');

CREATE TABLE messages (
  workspace_id uuid NOT NULL,
  id           uuid NOT NULL,
  thread_id    uuid NOT NULL,
  seq          bigint NOT NULL CHECK (seq > 0), -- in the order in which they were spoken
  role         text NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
  body         text NOT NULL CHECK (length(body) <= 65536),
  execution_id uuid,
  key          text CHECK (length(key) BETWEEN 1 AND 255), -- a thread has one message of a key
  data         jsonb,
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, thread_id, seq),
  FOREIGN KEY (workspace_id, thread_id) REFERENCES threads (workspace_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX messages_key ON messages (workspace_id, thread_id, key) WHERE key IS NOT NULL;
CALL lk_protect('messages');

-- The heads of queues.
CREATE INDEX outbox_queued ON outbox (workspace_id, order_key, seq) WHERE status = 'queued';

-- +goose Down
DROP INDEX outbox_queued;
DROP TABLE messages;
DROP TABLE threads;
