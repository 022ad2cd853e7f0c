-- Circuits: which models are not asked for a while, because they failed.

-- +goose Up
CREATE TABLE provider_circuits (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  provider     TEXT NOT NULL CHECK (length(provider) BETWEEN 1 AND 64),
  model        TEXT NOT NULL DEFAULT '' CHECK (length(model) <= 512),
  state        TEXT NOT NULL CHECK (state IN ('closed', 'open', 'half_open', 'paused')),
  failures     INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
  last_class   TEXT CHECK (length(last_class) BETWEEN 1 AND 40),
  cooldown_ms  INTEGER NOT NULL DEFAULT 0 CHECK (cooldown_ms >= 0),
  opened_at    INTEGER,
  retry_at     INTEGER,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, provider, model),
  CHECK ((state = 'closed') = (retry_at IS NULL))
) STRICT;

-- +goose Down
DROP TABLE provider_circuits;
