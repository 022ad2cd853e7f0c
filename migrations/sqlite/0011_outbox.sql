-- What leaves, or is to be done next: messages, webhooks, spawns and kicks, each
-- written in the transaction of the change it belongs to and sent afterwards.

-- +goose Up
CREATE TABLE outbox (
  workspace_id  TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id            TEXT NOT NULL,
  kind          TEXT NOT NULL CHECK (kind IN ('message', 'webhook', 'spawn', 'kick')),
  topic         TEXT NOT NULL CHECK (length(topic) BETWEEN 1 AND 64),
  key           TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  order_key     TEXT CHECK (length(order_key) BETWEEN 1 AND 255),
  seq           INTEGER CHECK (seq > 0),
  payload       TEXT NOT NULL CHECK (json_valid(payload)),
  format        INTEGER NOT NULL DEFAULT 1,
  status        TEXT NOT NULL DEFAULT 'ready'
                CHECK (status IN ('queued', 'ready', 'sending', 'sent', 'failed', 'superseded', 'expired', 'uncertain', 'dead')),
  attempts      INTEGER NOT NULL DEFAULT 0,
  max_attempts  INTEGER NOT NULL CHECK (max_attempts > 0),
  due_at        INTEGER NOT NULL,
  claimed_by    TEXT,
  claim_token   TEXT,
  claimed_until INTEGER,
  last_error    TEXT,
  supersede_key TEXT CHECK (length(supersede_key) BETWEEN 1 AND 255),
  expires_at    INTEGER,
  trace_id      TEXT NOT NULL,
  execution_id  TEXT,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  sent_at       INTEGER,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, key),
  CHECK ((order_key IS NULL) = (seq IS NULL)),
  CHECK ((status = 'sending') = (claim_token IS NOT NULL)),
  CHECK ((status = 'sending') = (claimed_until IS NOT NULL)),
  CHECK ((status = 'sent') = (sent_at IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX outbox_order ON outbox (workspace_id, order_key, seq) WHERE order_key IS NOT NULL;
CREATE UNIQUE INDEX outbox_in_flight ON outbox (workspace_id, order_key) WHERE status = 'sending' AND order_key IS NOT NULL;
CREATE INDEX outbox_due ON outbox (workspace_id, topic, due_at, id) WHERE status IN ('ready', 'sending');
CREATE INDEX outbox_open ON outbox (workspace_id, order_key, seq) WHERE order_key IS NOT NULL AND status IN ('queued', 'ready', 'sending');
CREATE INDEX outbox_supersede ON outbox (workspace_id, supersede_key) WHERE supersede_key IS NOT NULL AND status IN ('queued', 'ready');
CREATE INDEX outbox_newest ON outbox (workspace_id, created_at DESC, id DESC);

-- +goose Down
DROP TABLE outbox;
