-- What keeps callers in bounds: how fast they may ask, and that what they ask
-- twice under one key is done once.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- Buckets of tokens. After a crash of the database all are full: no need to log.
CREATE UNLOGGED TABLE rate_limits (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  key          text COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  full_at      timestamptz NOT NULL, -- when the bucket is full again, unless more is taken
  granted      boolean NOT NULL,     -- the last time tokens were asked for
  PRIMARY KEY (workspace_id, key)
) WITH (fillfactor = 50);            -- room for HOT updates; no index on full_at, which would prevent them
CALL lk_protect('rate_limits');

CREATE TABLE idempotency_keys (
  workspace_id     uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  route            text COLLATE "C" NOT NULL CHECK (length(route) BETWEEN 1 AND 200),
  principal        text COLLATE "C" NOT NULL CHECK (length(principal) BETWEEN 1 AND 600),
  key_hash         text COLLATE "C" NOT NULL CHECK (length(key_hash) BETWEEN 1 AND 64),
  request_hash     text NOT NULL CHECK (length(request_hash) BETWEEN 1 AND 64),
  status           text NOT NULL CHECK (status IN ('running', 'done')),
  token            uuid NOT NULL,        -- the proof of who works on it
  claimed_until    timestamptz NOT NULL, -- from when on another may take it over, while it is running
  response_status  integer,
  response_headers text CHECK (length(response_headers) <= 8192), -- a JSON object
  response_body    bytea CHECK (length(response_body) <= 262144), -- null: the answer was not kept
  created_at       timestamptz NOT NULL,
  expires_at       timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, route, principal, key_hash),
  CHECK ((status = 'done') = (response_status IS NOT NULL)),
  CHECK ((response_body IS NULL) = (response_headers IS NULL))
);
CREATE INDEX idempotency_keys_expired ON idempotency_keys (workspace_id, expires_at);
CALL lk_protect('idempotency_keys');

-- +goose Down
DROP TABLE idempotency_keys;
DROP TABLE rate_limits;
