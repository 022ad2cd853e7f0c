-- Budgets of tasks: an attempt keeps its reservation until it ends, crossing a threshold is an event,
-- estimates are held against what was used, and tiers say which model serves which work.
-- oldest: 46

-- +goose Up
-- A reservation of an attempt has no lease: it ends with the attempt, whatever ends that.
CREATE TABLE usage_reservations_new (
  workspace_id TEXT NOT NULL,
  id           TEXT NOT NULL,
  budget_id    TEXT NOT NULL,
  holder       TEXT NOT NULL CHECK (length(holder) BETWEEN 1 AND 255),
  tokens       INTEGER NOT NULL CHECK (tokens >= 0),
  micro_usd    INTEGER NOT NULL DEFAULT 0 CHECK (micro_usd >= 0),
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  settled_at   INTEGER,
  task_id      TEXT,
  attempt      INTEGER CHECK (attempt > 0),
  PRIMARY KEY (workspace_id, id, budget_id),
  FOREIGN KEY (workspace_id, budget_id) REFERENCES usage_budgets (workspace_id, id) ON DELETE CASCADE,
  FOREIGN KEY (workspace_id, task_id, attempt) REFERENCES agent_task_attempts (workspace_id, task_id, number)
    ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  CHECK ((task_id IS NULL) = (attempt IS NULL))
) STRICT;
INSERT INTO usage_reservations_new (workspace_id, id, budget_id, holder, tokens, micro_usd, created_at, expires_at, settled_at)
SELECT workspace_id, id, budget_id, holder, tokens, micro_usd, created_at, expires_at, settled_at FROM usage_reservations;
DROP TABLE usage_reservations;
ALTER TABLE usage_reservations_new RENAME TO usage_reservations;
CREATE INDEX usage_reservations_live ON usage_reservations (workspace_id, budget_id, expires_at) WHERE settled_at IS NULL;
CREATE INDEX usage_reservations_attempt ON usage_reservations (workspace_id, task_id, attempt) WHERE task_id IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER budget_settled AFTER UPDATE OF ended_at ON agent_task_attempts WHEN OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL BEGIN
  UPDATE usage_reservations SET settled_at = lk_now(), expires_at = lk_now()
   WHERE workspace_id = NEW.workspace_id AND task_id = NEW.task_id AND attempt = NEW.number AND settled_at IS NULL;
END;
-- +goose StatementEnd

-- The highest threshold that a budget's consumption has reached, in percent.
ALTER TABLE usage_budgets ADD COLUMN threshold INTEGER NOT NULL GENERATED ALWAYS AS (
  CASE WHEN consumed >= allocated OR consumed_micro_usd >= coalesce(allocated_micro_usd, consumed_micro_usd + 1) THEN 100
       WHEN consumed * 10 >= allocated * 9 OR consumed_micro_usd * 10 >= coalesce(allocated_micro_usd * 9, consumed_micro_usd * 10 + 1) THEN 90
       ELSE 0 END) VIRTUAL;
ALTER TABLE usage_budgets DROP COLUMN warned_percent; -- nothing has used these two
ALTER TABLE usage_budgets DROP COLUMN paused_at;
CREATE INDEX usage_budgets_spent ON usage_budgets (workspace_id, period_end) WHERE threshold = 100;

-- +goose StatementBegin
CREATE TRIGGER event_crossed AFTER UPDATE ON usage_budgets WHEN NEW.threshold > OLD.threshold BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  VALUES (NEW.workspace_id, CASE NEW.threshold WHEN 100 THEN 'budget.exhausted' ELSE 'budget.warning' END, NEW.id, NULL,
    json_object('scope', NEW.scope, 'scope_id', NEW.scope_id, 'threshold', NEW.threshold, 'allocated', NEW.allocated,
      'consumed', NEW.consumed, 'allocated_micro_usd', NEW.allocated_micro_usd, 'consumed_micro_usd', NEW.consumed_micro_usd), lk_now());
END;
-- +goose StatementEnd

ALTER TABLE agent_usage_logs ADD COLUMN attempt INTEGER CHECK (attempt > 0);

CREATE TABLE usage_estimates (
  workspace_id TEXT NOT NULL,
  task_id      TEXT NOT NULL,
  task_type    TEXT NOT NULL DEFAULT '' CHECK (length(task_type) <= 100),
  complexity   INTEGER NOT NULL DEFAULT 5 CHECK (complexity BETWEEN 1 AND 1000),
  estimated    INTEGER CHECK (estimated > 0), -- tokens, of its latest attempt; null: it was assigned without an estimate
  used         INTEGER CHECK (used >= 0),     -- tokens, of all attempts
  finished_at  INTEGER,
  PRIMARY KEY (workspace_id, task_id),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE,
  CHECK ((used IS NULL) = (finished_at IS NULL))
) STRICT;
CREATE INDEX usage_estimates_type ON usage_estimates (workspace_id, task_type, finished_at DESC) WHERE finished_at IS NOT NULL;
CREATE INDEX usage_estimates_newest ON usage_estimates (workspace_id, finished_at DESC, task_id DESC) WHERE finished_at IS NOT NULL;

-- +goose StatementBegin
CREATE TRIGGER usage_noted AFTER UPDATE OF status ON agent_tasks WHEN NEW.status = 'COMPLETED' AND OLD.status <> 'COMPLETED' BEGIN
  INSERT INTO usage_estimates (workspace_id, task_id, task_type, complexity, used, finished_at)
  SELECT NEW.workspace_id, NEW.id, coalesce(NEW.task_type, ''),
         coalesce((SELECT CASE WHEN json_type(NEW.metadata, '$.complexity') IN ('integer', 'real') AND c.n > 0 AND c.n < 1000000000
                               THEN min(1000, CAST(c.n AS INTEGER) + (c.n > CAST(c.n AS INTEGER))) END
                     FROM (SELECT json_extract(NEW.metadata, '$.complexity') AS n) c), 5), sum(l.total_tokens), lk_now()
    FROM agent_usage_logs l
   WHERE l.workspace_id = NEW.workspace_id AND l.task_id = NEW.id
  HAVING sum(l.total_tokens) > 0
  ON CONFLICT (workspace_id, task_id) DO UPDATE SET
    task_type = EXCLUDED.task_type, complexity = EXCLUDED.complexity, used = EXCLUDED.used, finished_at = EXCLUDED.finished_at;
END;
-- +goose StatementEnd

CREATE TABLE usage_corrections (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  task_type    TEXT NOT NULL CHECK (length(task_type) <= 100),
  samples      INTEGER NOT NULL CHECK (samples > 0),
  permille     INTEGER NOT NULL CHECK (permille >= 0),
  learned_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, task_type)
) STRICT;

ALTER TABLE model_prices ADD COLUMN tier TEXT CHECK (tier IN ('small', 'middle', 'top'));
UPDATE model_prices SET tier = CASE model WHEN 'claude-3-5-haiku' THEN 'small' WHEN 'claude-sonnet-4' THEN 'middle' ELSE 'top' END
 WHERE model IN ('claude-3-5-haiku', 'claude-sonnet-4', 'claude-opus-4');
CREATE TABLE model_tiers (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  tier         TEXT NOT NULL CHECK (tier IN ('small', 'middle', 'top')),
  model        TEXT NOT NULL CHECK (length(model) BETWEEN 1 AND 255),
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, tier)
) STRICT;

-- +goose Down
DROP TABLE model_tiers;
ALTER TABLE model_prices DROP COLUMN tier;
DROP TABLE usage_corrections;
DROP TRIGGER usage_noted;
DROP TABLE usage_estimates;
ALTER TABLE agent_usage_logs DROP COLUMN attempt;
DROP TRIGGER event_crossed;
DROP INDEX usage_budgets_spent;
ALTER TABLE usage_budgets DROP COLUMN threshold;
ALTER TABLE usage_budgets ADD COLUMN warned_percent INTEGER NOT NULL DEFAULT 0 CHECK (warned_percent BETWEEN 0 AND 100);
ALTER TABLE usage_budgets ADD COLUMN paused_at INTEGER;
DROP TRIGGER budget_settled;
CREATE TABLE usage_reservations_new (
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
INSERT INTO usage_reservations_new SELECT workspace_id, id, budget_id, holder, tokens, micro_usd, created_at, expires_at, settled_at
  FROM usage_reservations WHERE task_id IS NULL;
DROP TABLE usage_reservations;
ALTER TABLE usage_reservations_new RENAME TO usage_reservations;
CREATE INDEX usage_reservations_live ON usage_reservations (workspace_id, budget_id, expires_at) WHERE settled_at IS NULL;
