-- A delivery whose kick is gone is found, one that is done again knows what its tries asked for, and
-- a source of GitHub catches up with what it missed.
-- oldest: 41

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- The checks are not validated: no row has a value yet, and nobody waits while the table is read.
ALTER TABLE inbox
  ADD COLUMN kicks integer NOT NULL DEFAULT 0,     -- how often its row in the outbox was made anew
  ADD COLUMN asked text,                           -- SHA-256 of what its last try asked for
  ADD COLUMN effect boolean NOT NULL DEFAULT true, -- a try may have had its effect; new rows say false
  ADD CONSTRAINT inbox_asked_check CHECK (length(asked) = 64) NOT VALID;
ALTER TABLE webhook_sources
  ADD COLUMN github text,   -- JSON: the repository whose deliveries it catches up with
  ADD COLUMN catch_up text, -- JSON: how far it has
  ADD CONSTRAINT webhook_sources_github_check CHECK (length(github) BETWEEN 2 AND 2048) NOT VALID,
  ADD CONSTRAINT webhook_sources_catch_up_check CHECK (length(catch_up) BETWEEN 2 AND 65536) NOT VALID;
CREATE INDEX inbox_open ON inbox (workspace_id, id) WHERE status IN ('received', 'working', 'failed');

-- lk_workspaces_due are those in which something may wait to be tended: a row of the
-- outbox, a thread that is held, an approval that nobody answered, an execution of which
-- nothing was heard in its time, nor of any below it, and a delivery or a source that catches
-- up of which the outbox has no row.
CREATE OR REPLACE FUNCTION lk_workspaces_due(p_most integer) RETURNS SETOF uuid LANGUAGE sql SECURITY DEFINER AS $$
  SELECT w.id
    FROM workspaces w
   WHERE EXISTS (SELECT FROM outbox o WHERE o.workspace_id = w.id AND o.status IN ('ready', 'sending') AND o.due_at <= (SELECT lk_now()))
      OR EXISTS (SELECT FROM outbox o WHERE o.workspace_id = w.id AND o.status = 'queued')
      OR EXISTS (SELECT FROM threads t WHERE t.workspace_id = w.id AND t.active_execution_id IS NOT NULL)
      OR EXISTS (SELECT FROM approvals a WHERE a.workspace_id = w.id AND a.status = 'pending' AND a.expires_at <= (SELECT lk_now()))
      OR EXISTS (SELECT FROM executions e WHERE e.workspace_id = w.id AND e.subject IS NULL AND e.status = 'parked')
      OR EXISTS (SELECT FROM executions e
                  WHERE e.workspace_id = w.id AND e.subject IS NULL AND e.status IN ('running', 'waiting', 'parked')
                    AND e.updated_at < lk_plus((SELECT lk_now()), e.timeout_seconds * CAST(-1000 AS bigint))
                    AND NOT EXISTS (
                      WITH RECURSIVE tree (id, status, updated_at) AS (
                        SELECT e.id, e.status, e.updated_at
                        UNION ALL
                        SELECT c.id, c.status, c.updated_at FROM tree p JOIN executions c ON c.workspace_id = e.workspace_id AND c.parent_id = p.id)
                      SELECT FROM tree d
                       WHERE d.status IN ('running', 'waiting', 'parked')
                         AND d.updated_at >= lk_plus((SELECT lk_now()), e.timeout_seconds * CAST(-1000 AS bigint))))
      OR EXISTS (SELECT FROM inbox i
                  WHERE i.workspace_id = w.id AND i.status IN ('received', 'working', 'failed') AND i.kicks < 4
                    AND NOT EXISTS (SELECT FROM outbox k WHERE k.workspace_id = w.id AND k.key = 'inbox:' || i.id AND k.status IN ('ready', 'sending')))
      OR EXISTS (SELECT FROM webhook_sources s
                  WHERE s.workspace_id = w.id AND s.github IS NOT NULL AND s.enabled
                    AND NOT EXISTS (SELECT FROM outbox k WHERE k.workspace_id = w.id AND k.key = 'catch_up:' || s.id AND k.status IN ('ready', 'sending')))
   ORDER BY w.id
   LIMIT p_most
$$;
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_workspaces_due(integer) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
CREATE OR REPLACE FUNCTION lk_workspaces_due(p_most integer) RETURNS SETOF uuid LANGUAGE sql SECURITY DEFINER AS $$
  SELECT w.id
    FROM workspaces w
   WHERE EXISTS (SELECT FROM outbox o WHERE o.workspace_id = w.id AND o.status IN ('ready', 'sending') AND o.due_at <= (SELECT lk_now()))
      OR EXISTS (SELECT FROM outbox o WHERE o.workspace_id = w.id AND o.status = 'queued')
      OR EXISTS (SELECT FROM threads t WHERE t.workspace_id = w.id AND t.active_execution_id IS NOT NULL)
      OR EXISTS (SELECT FROM approvals a WHERE a.workspace_id = w.id AND a.status = 'pending' AND a.expires_at <= (SELECT lk_now()))
      OR EXISTS (SELECT FROM executions e WHERE e.workspace_id = w.id AND e.subject IS NULL AND e.status = 'parked')
      OR EXISTS (SELECT FROM executions e
                  WHERE e.workspace_id = w.id AND e.subject IS NULL AND e.status IN ('running', 'waiting', 'parked')
                    AND e.updated_at < lk_plus((SELECT lk_now()), e.timeout_seconds * CAST(-1000 AS bigint))
                    AND NOT EXISTS (
                      WITH RECURSIVE tree (id, status, updated_at) AS (
                        SELECT e.id, e.status, e.updated_at
                        UNION ALL
                        SELECT c.id, c.status, c.updated_at FROM tree p JOIN executions c ON c.workspace_id = e.workspace_id AND c.parent_id = p.id)
                      SELECT FROM tree d
                       WHERE d.status IN ('running', 'waiting', 'parked')
                         AND d.updated_at >= lk_plus((SELECT lk_now()), e.timeout_seconds * CAST(-1000 AS bigint))))
   ORDER BY w.id
   LIMIT p_most
$$;
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_workspaces_due(integer) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

DROP INDEX inbox_open;
ALTER TABLE webhook_sources DROP COLUMN catch_up, DROP COLUMN github;
ALTER TABLE inbox DROP COLUMN effect, DROP COLUMN asked, DROP COLUMN kicks;
