-- A workspace is not due for an execution of which nothing was heard while something is heard
-- of one below it.
-- oldest: 41

-- +goose Up
-- lk_workspaces_due are those in which something may wait to be tended: a row of the
-- outbox, a thread that is held, an approval that nobody answered, an execution of which
-- nothing was heard in its time, nor of any below it.
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
                    AND e.updated_at < lk_plus((SELECT lk_now()), e.timeout_seconds * CAST(-1000 AS bigint)))
   ORDER BY w.id
   LIMIT p_most
$$;
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_workspaces_due(integer) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
