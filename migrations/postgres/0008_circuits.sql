-- Circuits: which models are not asked for a while, because they failed.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE provider_circuits (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  provider     text NOT NULL CHECK (length(provider) BETWEEN 1 AND 64),
  model        text NOT NULL DEFAULT '' CHECK (length(model) <= 512), -- as it is asked for; empty: the provider's default
  state        text NOT NULL CHECK (state IN ('closed', 'open', 'half_open', 'paused')),
  failures     integer NOT NULL DEFAULT 0 CHECK (failures >= 0), -- in a row
  last_class   text CHECK (length(last_class) BETWEEN 1 AND 40), -- of the last failure
  cooldown_ms  bigint NOT NULL DEFAULT 0 CHECK (cooldown_ms >= 0), -- the last one
  opened_at    timestamptz,
  retry_at     timestamptz, -- open, paused: when a probe is let through; half_open: when the probe counts as lost
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, provider, model),
  CHECK ((state = 'closed') = (retry_at IS NULL))
);
CALL lk_protect('provider_circuits');

-- +goose Down
DROP TABLE provider_circuits;
