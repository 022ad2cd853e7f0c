-- Budgets: what may be spent in a period and by whom, what is reserved of it, what
-- was spent, and what models cost.

-- +goose Up
CREATE TABLE usage_budgets (
  workspace_id        TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                  TEXT NOT NULL,
  scope               TEXT NOT NULL CHECK (scope IN ('global', 'project', 'milestone', 'task', 'agent', 'skill')),
  scope_id            TEXT NOT NULL DEFAULT '' CHECK (length(scope_id) <= 255),
  allocated           INTEGER NOT NULL CHECK (allocated >= 0), -- tokens, as all without a unit
  consumed            INTEGER NOT NULL DEFAULT 0 CHECK (consumed >= 0),
  reserved            INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  overdraft           INTEGER NOT NULL DEFAULT 0 CHECK (overdraft >= 0),
  remaining           INTEGER GENERATED ALWAYS AS (allocated - consumed - reserved) STORED,
  allocated_micro_usd INTEGER CHECK (allocated_micro_usd >= 0), -- null: money is counted and not bounded
  consumed_micro_usd  INTEGER NOT NULL DEFAULT 0 CHECK (consumed_micro_usd >= 0),
  reserved_micro_usd  INTEGER NOT NULL DEFAULT 0 CHECK (reserved_micro_usd >= 0),
  overdraft_micro_usd INTEGER NOT NULL DEFAULT 0 CHECK (overdraft_micro_usd >= 0),
  remaining_micro_usd INTEGER GENERATED ALWAYS AS (allocated_micro_usd - consumed_micro_usd - reserved_micro_usd) STORED,
  period_start        INTEGER NOT NULL,
  period_end          INTEGER NOT NULL,
  warned_percent      INTEGER NOT NULL DEFAULT 0 CHECK (warned_percent BETWEEN 0 AND 100),
  paused_at           INTEGER,
  version             INTEGER NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes by people
  created_by          TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at          INTEGER NOT NULL,
  updated_at          INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, scope, scope_id, period_start),
  CHECK ((scope = 'global') = (scope_id = '')),
  CHECK (period_start < period_end),
  CHECK (consumed + reserved <= allocated + overdraft),
  CHECK (allocated_micro_usd IS NULL OR consumed_micro_usd + reserved_micro_usd <= allocated_micro_usd + overdraft_micro_usd)
) STRICT;

CREATE TABLE usage_reservations (
  workspace_id TEXT NOT NULL,
  id           TEXT NOT NULL,
  budget_id    TEXT NOT NULL,
  holder       TEXT NOT NULL CHECK (length(holder) BETWEEN 1 AND 255),
  tokens       INTEGER NOT NULL CHECK (tokens >= 0),
  micro_usd    INTEGER NOT NULL DEFAULT 0 CHECK (micro_usd >= 0),
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  settled_at   INTEGER,
  PRIMARY KEY (workspace_id, id, budget_id),
  FOREIGN KEY (workspace_id, budget_id) REFERENCES usage_budgets (workspace_id, id) ON DELETE CASCADE
) STRICT;
CREATE INDEX usage_reservations_live ON usage_reservations (workspace_id, budget_id, expires_at) WHERE settled_at IS NULL;

CREATE TABLE agent_usage_logs (
  workspace_id       TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id                 TEXT NOT NULL, -- its reservation's, where it had one
  execution_id       TEXT,
  trace_id           TEXT NOT NULL,
  session_id         TEXT CHECK (length(session_id) BETWEEN 1 AND 255),
  task_id            TEXT,
  milestone_id       TEXT,
  project_id         TEXT,
  agent              TEXT NOT NULL CHECK (length(agent) BETWEEN 1 AND 255),
  skill              TEXT CHECK (length(skill) BETWEEN 1 AND 255),
  surface            TEXT NOT NULL CHECK (surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk')),
  operation          TEXT NOT NULL CHECK (length(operation) BETWEEN 1 AND 100),
  model              TEXT NOT NULL CHECK (length(model) BETWEEN 1 AND 512),
  input_tokens       INTEGER NOT NULL CHECK (input_tokens >= 0),
  output_tokens      INTEGER NOT NULL CHECK (output_tokens >= 0),
  cache_read_tokens  INTEGER NOT NULL CHECK (cache_read_tokens >= 0),
  cache_write_tokens INTEGER NOT NULL CHECK (cache_write_tokens >= 0),
  total_tokens       INTEGER GENERATED ALWAYS AS (input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) STORED,
  cost_micro_usd     INTEGER CHECK (cost_micro_usd >= 0), -- null: the model's price is not known
  created_at         INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT;
CREATE INDEX agent_usage_logs_newest ON agent_usage_logs (workspace_id, created_at DESC);
CREATE INDEX agent_usage_logs_trace ON agent_usage_logs (workspace_id, trace_id);
CREATE INDEX agent_usage_logs_task ON agent_usage_logs (workspace_id, task_id) WHERE task_id IS NOT NULL;

CREATE TABLE model_prices (
  model       TEXT NOT NULL CHECK (length(model) BETWEEN 1 AND 255), -- how its name begins
  valid_from  INTEGER NOT NULL,
  input       INTEGER NOT NULL CHECK (input BETWEEN 0 AND 1000000000),
  output      INTEGER NOT NULL CHECK (output BETWEEN 0 AND 1000000000),
  cache_read  INTEGER NOT NULL CHECK (cache_read BETWEEN 0 AND 1000000000),
  cache_write INTEGER NOT NULL CHECK (cache_write BETWEEN 0 AND 1000000000),
  PRIMARY KEY (model, valid_from)
) STRICT;
INSERT INTO model_prices (model, valid_from, input, output, cache_read, cache_write) VALUES
  ('claude-3-5-haiku', 1704067200000000, 800000, 4000000, 80000, 1000000),
  ('claude-sonnet-4', 1704067200000000, 3000000, 15000000, 300000, 3750000),
  ('claude-opus-4', 1704067200000000, 15000000, 75000000, 1500000, 18750000);

-- +goose Down
DROP TABLE model_prices;
DROP TABLE agent_usage_logs;
DROP TABLE usage_reservations;
DROP TABLE usage_budgets;
