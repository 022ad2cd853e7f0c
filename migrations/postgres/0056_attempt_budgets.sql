-- Budgets of tasks: an attempt keeps its reservation until it ends, crossing a threshold is an event,
-- estimates are held against what was used, and tiers say which model serves which work.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- A reservation of an attempt has no lease: it ends with the attempt, whatever ends that.
ALTER TABLE usage_reservations
  ADD COLUMN task_id uuid,
  ADD COLUMN attempt integer CHECK (attempt > 0),
  ADD CHECK ((task_id IS NULL) = (attempt IS NULL)),
  -- Checked at the end of the transaction, which begins the attempt too.
  ADD FOREIGN KEY (workspace_id, task_id, attempt) REFERENCES agent_task_attempts (workspace_id, task_id, number)
    ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX usage_reservations_attempt ON usage_reservations (workspace_id, task_id, attempt) WHERE task_id IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION lk_settle_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE usage_reservations SET settled_at = lk_now(), expires_at = lk_now()
   WHERE workspace_id = NEW.workspace_id AND task_id = NEW.task_id AND attempt = NEW.number AND settled_at IS NULL;
  RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lk_settle_attempt() FROM PUBLIC; -- triggers need no right to it
CREATE TRIGGER budget_settled AFTER UPDATE OF ended_at ON agent_task_attempts FOR EACH ROW
  WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION lk_settle_attempt();

-- The highest threshold that a budget's consumption has reached, in percent.
ALTER TABLE usage_budgets ADD COLUMN threshold integer NOT NULL GENERATED ALWAYS AS (
  CASE WHEN consumed >= allocated OR consumed_micro_usd >= coalesce(allocated_micro_usd, consumed_micro_usd + 1) THEN 100
       WHEN consumed * 10 >= allocated * 9 OR consumed_micro_usd * 10 >= coalesce(allocated_micro_usd * 9, consumed_micro_usd * 10 + 1) THEN 90
       ELSE 0 END) STORED;
ALTER TABLE usage_budgets DROP COLUMN warned_percent, DROP COLUMN paused_at; -- nothing has used them
CREATE INDEX usage_budgets_spent ON usage_budgets (workspace_id, period_end) WHERE threshold = 100;

-- +goose StatementBegin
CREATE FUNCTION lk_event_of_budget() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, CASE NEW.threshold WHEN 100 THEN 'budget.exhausted' ELSE 'budget.warning' END, NEW.id,
    jsonb_build_object('scope', NEW.scope, 'scope_id', NEW.scope_id, 'threshold', NEW.threshold, 'allocated', NEW.allocated,
      'consumed', NEW.consumed, 'allocated_micro_usd', NEW.allocated_micro_usd, 'consumed_micro_usd', NEW.consumed_micro_usd), lk_now());
  RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lk_event_of_budget() FROM PUBLIC;
CREATE TRIGGER event_crossed AFTER UPDATE ON usage_budgets FOR EACH ROW
  WHEN (NEW.threshold > OLD.threshold) EXECUTE FUNCTION lk_event_of_budget();

ALTER TABLE agent_usage_logs ADD COLUMN attempt integer CHECK (attempt > 0);

-- What a task was thought to use, and what it used until it was completed.
CREATE TABLE usage_estimates (
  workspace_id uuid NOT NULL,
  task_id      uuid NOT NULL,
  task_type    text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(task_type) <= 100),
  complexity   integer NOT NULL DEFAULT 5 CHECK (complexity BETWEEN 1 AND 1000),
  estimated    bigint CHECK (estimated > 0), -- tokens, of its latest attempt; null: it was assigned without an estimate
  used         bigint CHECK (used >= 0),     -- tokens, of all attempts
  finished_at  timestamptz,
  PRIMARY KEY (workspace_id, task_id),
  FOREIGN KEY (workspace_id, task_id) REFERENCES agent_tasks (workspace_id, id) ON DELETE CASCADE,
  CHECK ((used IS NULL) = (finished_at IS NULL))
);
CREATE INDEX usage_estimates_type ON usage_estimates (workspace_id, task_type, finished_at DESC) WHERE finished_at IS NOT NULL;
CREATE INDEX usage_estimates_newest ON usage_estimates (workspace_id, finished_at DESC, task_id DESC) WHERE finished_at IS NOT NULL;
CALL lk_protect('usage_estimates');

-- +goose StatementBegin
CREATE FUNCTION lk_note_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage_estimates (workspace_id, task_id, task_type, complexity, used, finished_at)
  SELECT NEW.workspace_id, NEW.id, coalesce(NEW.task_type, ''),
         coalesce(least(1000, nullif(ceil(CAST(substring(
           CASE json_typeof(CAST(NEW.metadata AS json) -> 'complexity') WHEN 'number' THEN CAST(NEW.metadata AS json) ->> 'complexity' END
           FROM '^[0-9]{1,9}(?:\.[0-9]{1,9})?$') AS numeric)), 0)), 5), sum(l.total_tokens), lk_now()
    FROM agent_usage_logs l
   WHERE l.workspace_id = NEW.workspace_id AND l.task_id = NEW.id
  HAVING sum(l.total_tokens) > 0
  ON CONFLICT (workspace_id, task_id) DO UPDATE SET
    task_type = EXCLUDED.task_type, complexity = EXCLUDED.complexity, used = EXCLUDED.used, finished_at = EXCLUDED.finished_at;
  RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lk_note_usage() FROM PUBLIC;
CREATE TRIGGER usage_noted AFTER UPDATE OF status ON agent_tasks FOR EACH ROW
  WHEN (NEW.status = 'COMPLETED' AND OLD.status <> 'COMPLETED') EXECUTE FUNCTION lk_note_usage();

-- What was learned of a type of tasks: by how much its tasks miss the formula.
CREATE TABLE usage_corrections (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  task_type    text COLLATE "C" NOT NULL CHECK (length(task_type) <= 100),
  samples      integer NOT NULL CHECK (samples > 0),   -- finished tasks that it was learned from
  permille     bigint NOT NULL CHECK (permille >= 0), -- the median of used over the formula, in thousandths
  learned_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, task_type)
);
CALL lk_protect('usage_corrections');

-- Which model serves which kind of work: by its price, or by what a workspace chose.
ALTER TABLE model_prices ADD COLUMN tier text CHECK (tier IN ('small', 'middle', 'top'));
UPDATE model_prices SET tier = CASE model WHEN 'claude-3-5-haiku' THEN 'small' WHEN 'claude-sonnet-4' THEN 'middle' ELSE 'top' END
 WHERE model IN ('claude-3-5-haiku', 'claude-sonnet-4', 'claude-opus-4');
CREATE TABLE model_tiers (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  tier         text NOT NULL CHECK (tier IN ('small', 'middle', 'top')),
  model        text NOT NULL CHECK (length(model) BETWEEN 1 AND 255),
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, tier)
);
CALL lk_protect('model_tiers');

-- +goose Down
DROP TABLE model_tiers;
ALTER TABLE model_prices DROP COLUMN tier;
DROP TABLE usage_corrections;
DROP TRIGGER usage_noted ON agent_tasks;
DROP FUNCTION lk_note_usage();
DROP TABLE usage_estimates;
ALTER TABLE agent_usage_logs DROP COLUMN attempt;
DROP TRIGGER event_crossed ON usage_budgets;
DROP FUNCTION lk_event_of_budget();
DROP INDEX usage_budgets_spent;
ALTER TABLE usage_budgets DROP COLUMN threshold,
  ADD COLUMN warned_percent integer NOT NULL DEFAULT 0 CHECK (warned_percent BETWEEN 0 AND 100),
  ADD COLUMN paused_at timestamptz;
DROP TRIGGER budget_settled ON agent_task_attempts;
DROP FUNCTION lk_settle_attempt();
DELETE FROM usage_reservations WHERE task_id IS NOT NULL;
ALTER TABLE usage_reservations DROP COLUMN attempt, DROP COLUMN task_id;
