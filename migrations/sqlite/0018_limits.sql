-- What keeps callers in bounds: how fast they may ask, and that what they ask
-- twice under one key is done once.

-- +goose Up
-- Buckets of tokens.
CREATE TABLE rate_limits (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  key          TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  full_at      INTEGER NOT NULL, -- when the bucket is full again, unless more is taken
  granted      INTEGER NOT NULL CHECK (granted IN (0, 1)), -- the last time tokens were asked for
  PRIMARY KEY (workspace_id, key)
) STRICT;

CREATE TABLE idempotency_keys (
  workspace_id     TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  route            TEXT NOT NULL CHECK (length(route) BETWEEN 1 AND 200),
  principal        TEXT NOT NULL CHECK (length(principal) BETWEEN 1 AND 600),
  key_hash         TEXT NOT NULL CHECK (length(key_hash) BETWEEN 1 AND 64),
  request_hash     TEXT NOT NULL CHECK (length(request_hash) BETWEEN 1 AND 64),
  status           TEXT NOT NULL CHECK (status IN ('running', 'done')),
  token            TEXT NOT NULL,    -- the proof of who works on it
  claimed_until    INTEGER NOT NULL, -- from when on another may take it over, while it is running
  response_status  INTEGER,
  response_headers TEXT CHECK (length(response_headers) <= 8192), -- a JSON object
  response_body    BLOB CHECK (length(response_body) <= 262144),  -- null: the answer was not kept
  created_at       INTEGER NOT NULL,
  expires_at       INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, route, principal, key_hash),
  CHECK ((status = 'done') = (response_status IS NOT NULL)),
  CHECK ((response_body IS NULL) = (response_headers IS NULL))
) STRICT;
CREATE INDEX idempotency_keys_expired ON idempotency_keys (workspace_id, expires_at);

-- +goose Down
DROP TABLE idempotency_keys;
DROP TABLE rate_limits;
