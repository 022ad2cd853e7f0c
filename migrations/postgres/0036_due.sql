-- What is due, of all workspaces at once: for the schedule's tick, and for whoever tends
-- what waits between beats.

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE executions ADD COLUMN timeout_seconds integer; -- of an execution that no lane protects; NULL: a week
-- Not validated: no row has a value yet, and nobody waits while the table is read.
ALTER TABLE executions ADD CONSTRAINT executions_timeout_seconds_check CHECK (timeout_seconds > 0) NOT VALID;

-- lk_workspaces_unserved are those in which a schedule slot has not been run, nor a later
-- one, and is not being run; NULL: all. Those whose last run is the longest ago come first.
CREATE FUNCTION lk_workspaces_unserved(p_surface text, p_prefix text, p_lane text, p_slot text, p_most integer) RETURNS SETOF uuid
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT w.id
    FROM workspaces w
    LEFT JOIN LATERAL (
      SELECT e.slot, e.status FROM executions e
       WHERE e.workspace_id = w.id AND e.surface = p_surface AND e.slot IS NOT NULL
       ORDER BY e.slot DESC
       LIMIT 1) newest ON true
   WHERE p_slot IS NULL OR newest.slot IS NULL OR newest.slot < p_prefix || w.id || ':' || p_slot
      OR newest.slot = p_prefix || w.id || ':' || p_slot AND newest.status = 'running'
         AND NOT EXISTS (SELECT FROM agent_locks l
                          WHERE l.workspace_id = w.id AND l.lane = p_lane AND l.token IS NOT NULL AND l.expires_at > (SELECT lk_now()))
   ORDER BY right(newest.slot, 17) NULLS FIRST, w.id
   LIMIT p_most
$$;

-- lk_workspaces_due are those in which something may wait to be tended: a row of the
-- outbox, a thread that is held, an approval that nobody answered, an execution of which
-- nothing was heard in its time.
CREATE FUNCTION lk_workspaces_due(p_most integer) RETURNS SETOF uuid LANGUAGE sql SECURITY DEFINER AS $$
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
  EXECUTE format('ALTER FUNCTION lk_workspaces_unserved(text, text, text, text, integer) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lk_workspaces_due(integer) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_workspaces_unserved(text, text, text, text, integer), lk_workspaces_due(integer) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_workspaces_unserved(text, text, text, text, integer), lk_workspaces_due(integer) TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_workspaces_due(integer);
DROP FUNCTION lk_workspaces_unserved(text, text, text, text, integer);
ALTER TABLE executions DROP COLUMN timeout_seconds;
