-- Budgets: what may be spent in a period and by whom, what is reserved of it, what
-- was spent, and what models cost.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- Periods of one scope never overlap: who adds one locks the workspace's row first
-- and then looks.
CREATE TABLE usage_budgets (
  workspace_id        uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                  uuid NOT NULL,
  scope               text NOT NULL CHECK (scope IN ('global', 'project', 'milestone', 'task', 'agent', 'skill')),
  scope_id            text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(scope_id) <= 255),
  allocated           bigint NOT NULL CHECK (allocated >= 0), -- tokens, as all without a unit
  consumed            bigint NOT NULL DEFAULT 0 CHECK (consumed >= 0),
  reserved            bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0), -- by what was live when the row was last changed
  overdraft           bigint NOT NULL DEFAULT 0 CHECK (overdraft >= 0),
  remaining           bigint GENERATED ALWAYS AS (allocated - consumed - reserved) STORED,
  allocated_micro_usd bigint CHECK (allocated_micro_usd >= 0), -- null: money is counted and not bounded
  consumed_micro_usd  bigint NOT NULL DEFAULT 0 CHECK (consumed_micro_usd >= 0),
  reserved_micro_usd  bigint NOT NULL DEFAULT 0 CHECK (reserved_micro_usd >= 0),
  overdraft_micro_usd bigint NOT NULL DEFAULT 0 CHECK (overdraft_micro_usd >= 0),
  remaining_micro_usd bigint GENERATED ALWAYS AS (allocated_micro_usd - consumed_micro_usd - reserved_micro_usd) STORED,
  period_start        timestamptz NOT NULL,
  period_end          timestamptz NOT NULL,
  warned_percent      integer NOT NULL DEFAULT 0 CHECK (warned_percent BETWEEN 0 AND 100), -- the highest threshold somebody was told of
  paused_at           timestamptz,
  version             integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes by people
  created_by          text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at          timestamptz NOT NULL,
  updated_at          timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, scope, scope_id, period_start),
  CHECK ((scope = 'global') = (scope_id = '')),
  CHECK (period_start < period_end),
  -- Nothing is exceeded silently.
  CHECK (consumed + reserved <= allocated + overdraft),
  CHECK (allocated_micro_usd IS NULL OR consumed_micro_usd + reserved_micro_usd <= allocated_micro_usd + overdraft_micro_usd)
) WITH (fillfactor = 70); -- room for HOT updates
CALL lk_protect('usage_budgets');

-- A reservation has a row for each budget it stands in. It holds until it is
-- settled, or its lease ends.
CREATE TABLE usage_reservations (
  workspace_id uuid NOT NULL,
  id           uuid NOT NULL,
  budget_id    uuid NOT NULL,
  holder       text NOT NULL CHECK (length(holder) BETWEEN 1 AND 255), -- an execution, or an attempt at a task
  tokens       bigint NOT NULL CHECK (tokens >= 0),
  micro_usd    bigint NOT NULL DEFAULT 0 CHECK (micro_usd >= 0),
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  settled_at   timestamptz,
  PRIMARY KEY (workspace_id, id, budget_id),
  FOREIGN KEY (workspace_id, budget_id) REFERENCES usage_budgets (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX usage_reservations_live ON usage_reservations (workspace_id, budget_id, expires_at) WHERE settled_at IS NULL;
CALL lk_protect('usage_reservations');

-- One row a model call, or an agent's report; never changed.
CREATE TABLE agent_usage_logs (
  workspace_id       uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                 uuid NOT NULL, -- its reservation's, where it had one
  execution_id       uuid,
  trace_id           text NOT NULL,
  session_id         text CHECK (length(session_id) BETWEEN 1 AND 255),
  task_id            uuid,
  milestone_id       uuid,
  project_id         uuid,
  agent              text NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  skill              text CHECK (length(skill) BETWEEN 1 AND 255),
  surface            text NOT NULL CHECK (surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk')),
  operation          text NOT NULL CHECK (length(operation) BETWEEN 1 AND 100),
  model              text NOT NULL CHECK (length(model) BETWEEN 1 AND 512),
  input_tokens       bigint NOT NULL CHECK (input_tokens >= 0), -- those neither read from nor written to a cache
  output_tokens      bigint NOT NULL CHECK (output_tokens >= 0),
  cache_read_tokens  bigint NOT NULL CHECK (cache_read_tokens >= 0),
  cache_write_tokens bigint NOT NULL CHECK (cache_write_tokens >= 0),
  total_tokens       bigint GENERATED ALWAYS AS (input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) STORED,
  cost_micro_usd     bigint CHECK (cost_micro_usd >= 0), -- null: the model's price is not known
  created_at         timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id)
);
CREATE INDEX agent_usage_logs_newest ON agent_usage_logs (workspace_id, created_at DESC);
CREATE INDEX agent_usage_logs_trace ON agent_usage_logs (workspace_id, trace_id);
CREATE INDEX agent_usage_logs_task ON agent_usage_logs (workspace_id, task_id) WHERE task_id IS NOT NULL;
CALL lk_protect('agent_usage_logs', 'append');

-- Global: what a model costs from a time on, in micro-dollars per million tokens.
-- The owner of the schema writes it.
CREATE TABLE model_prices (
  model       text COLLATE "C" NOT NULL CHECK (length(model) BETWEEN 1 AND 255), -- how its name begins
  valid_from  timestamptz NOT NULL,
  input       bigint NOT NULL CHECK (input BETWEEN 0 AND 1000000000),
  output      bigint NOT NULL CHECK (output BETWEEN 0 AND 1000000000),
  cache_read  bigint NOT NULL CHECK (cache_read BETWEEN 0 AND 1000000000),
  cache_write bigint NOT NULL CHECK (cache_write BETWEEN 0 AND 1000000000),
  PRIMARY KEY (model, valid_from)
);
INSERT INTO model_prices (model, valid_from, input, output, cache_read, cache_write) VALUES
  ('claude-3-5-haiku', '2024-01-01T00:00:00Z', 800000, 4000000, 80000, 1000000),
  ('claude-sonnet-4', '2024-01-01T00:00:00Z', 3000000, 15000000, 300000, 3750000),
  ('claude-opus-4', '2024-01-01T00:00:00Z', 15000000, 75000000, 1500000, 18750000);
GRANT SELECT ON model_prices TO lanekeeper_app;

-- +goose Down
DROP TABLE model_prices;
DROP TABLE agent_usage_logs;
DROP TABLE usage_reservations;
DROP TABLE usage_budgets;
