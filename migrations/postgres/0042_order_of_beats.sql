-- Workspaces whose beats a kill switch stops come last in the order of a tick, so that they
-- keep no other from its beat.
-- oldest: 41

-- +goose Up
-- lk_workspaces_unserved are those in which a schedule slot has not been run, nor a later
-- one, and is not being run; NULL: all. Those whose last run is the longest ago come first,
-- and those that are stopped last.
CREATE OR REPLACE FUNCTION lk_workspaces_unserved(p_surface text, p_prefix text, p_lane text, p_slot text, p_most integer) RETURNS SETOF uuid
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
   ORDER BY EXISTS (SELECT FROM kill_switches k
                     WHERE k.workspace_id = w.id AND k.released_at IS NULL
                       AND (k.scope = 'workspace' OR k.scope = 'agent' AND k.target = 'flowpilot')),
            right(newest.slot, 17) NULLS FIRST, w.id
   LIMIT p_most
$$;
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_workspaces_unserved(text, text, text, text, integer) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
CREATE OR REPLACE FUNCTION lk_workspaces_unserved(p_surface text, p_prefix text, p_lane text, p_slot text, p_most integer) RETURNS SETOF uuid
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
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_workspaces_unserved(text, text, text, text, integer) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
