-- What comes in from the world: the sources that may send, and one row for each delivery.
-- oldest: 46

-- +goose Up
CREATE TABLE webhook_sources (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
  kind         TEXT NOT NULL CHECK (kind IN ('github', 'stripe', 'slack', 'standard', 'hmac', 'token')),
  sealed       BLOB NOT NULL CHECK (length(sealed) BETWEEN 1 AND 80000),
  sealed_old   BLOB CHECK (length(sealed_old) BETWEEN 1 AND 80000),
  old_until    INTEGER,
  header       TEXT CHECK (length(header) BETWEEN 1 AND 100),
  encoding     TEXT CHECK (encoding IN ('hex', 'base64')),
  prefix       TEXT CHECK (length(prefix) BETWEEN 1 AND 100),
  id_path      TEXT CHECK (length(id_path) BETWEEN 1 AND 200),
  rules        TEXT NOT NULL DEFAULT '[]' CHECK (length(rules) BETWEEN 2 AND 65536),
  enabled      INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  rejected     INTEGER NOT NULL DEFAULT 0,
  rejected_at  INTEGER,
  version      INTEGER NOT NULL DEFAULT 1 CHECK (version > 0),
  created_by   TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name),
  CHECK ((sealed_old IS NULL) = (old_until IS NULL))
) STRICT;

CREATE TABLE inbox (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  source_id    TEXT NOT NULL,
  source       TEXT NOT NULL CHECK (length(source) BETWEEN 1 AND 63),
  delivery_id  TEXT NOT NULL CHECK (length(delivery_id) BETWEEN 1 AND 255),
  event        TEXT NOT NULL CHECK (length(event) <= 255),
  headers      TEXT NOT NULL CHECK (length(headers) BETWEEN 2 AND 65536),
  body         BLOB NOT NULL,
  digest       TEXT NOT NULL CHECK (length(digest) = 64),
  status       TEXT NOT NULL DEFAULT 'received' CHECK (status IN ('received', 'working', 'done', 'failed', 'parked')),
  attempts     INTEGER NOT NULL DEFAULT 0,
  next_at      INTEGER,
  action       TEXT CHECK (length(action) <= 300),
  error        TEXT,
  duplicates   INTEGER NOT NULL DEFAULT 0,
  conflicts    INTEGER NOT NULL DEFAULT 0,
  replays      INTEGER NOT NULL DEFAULT 0,
  trace_id     TEXT NOT NULL,
  execution_id TEXT,
  received_at  INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  ended_at     INTEGER,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, source_id, delivery_id),
  CHECK ((status = 'failed') = (next_at IS NOT NULL)),
  CHECK ((status IN ('done', 'parked')) = (ended_at IS NOT NULL))
) STRICT;
CREATE INDEX inbox_newest ON inbox (workspace_id, received_at DESC, id DESC);

-- +goose Down
DROP TABLE inbox;
DROP TABLE webhook_sources;
