-- A workspace is deleted in parts: no statement deletes more rows than its time limit allows. A closed
-- workspace is one that is being deleted. No lane of it is acquired: a lane refers to an open workspace.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE workspaces ADD COLUMN open boolean NOT NULL DEFAULT true;
CREATE UNIQUE INDEX workspaces_open ON workspaces (id, open);
ALTER TABLE agent_locks ADD COLUMN workspace_open boolean NOT NULL DEFAULT true CHECK (workspace_open);
ALTER TABLE agent_locks DROP CONSTRAINT agent_locks_workspace_id_fkey;
ALTER TABLE agent_locks ADD FOREIGN KEY (workspace_id, workspace_open) REFERENCES workspaces (id, open) ON DELETE CASCADE;

-- lk_erase deletes rows of the closed workspace that the transaction is in: p_most at most, and the workspace
-- itself where no more are left. It reports whether there may be more. Tables that refer to others go first. An
-- execution goes after its children. A second caller at the same time deletes nothing.
-- +goose StatementBegin
CREATE FUNCTION lk_erase(p_most bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
  ws CONSTANT uuid := nullif(current_setting('app.workspace_id', true), '')::uuid;
  place CONSTANT oid := current_schema()::regnamespace;
  left_over bigint := p_most;
  gone bigint;
  t regclass;
BEGIN
  PERFORM FROM workspaces w WHERE w.id = ws AND NOT w.open FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  FOR t IN
    WITH RECURSIVE refers (one, other) AS MATERIALIZED (
      SELECT DISTINCT c.conrelid, c.confrelid FROM pg_constraint c WHERE c.contype = 'f' AND c.connamespace = place AND c.conrelid <> c.confrelid
    ), deep (rel, depth) AS (
      SELECT CAST('workspaces'::regclass AS oid), 0
      UNION
      SELECT r.one, d.depth + 1 FROM deep d JOIN refers r ON r.other = d.rel
    )
    SELECT d.rel FROM deep d
      JOIN pg_attribute a ON a.attrelid = d.rel AND a.attname = 'workspace_id'
     GROUP BY d.rel ORDER BY d.rel = 'events'::regclass, max(d.depth) DESC, d.rel
  LOOP
    LOOP
      EXECUTE format('DELETE FROM %1$s WHERE workspace_id = $1 AND ctid = ANY (ARRAY(SELECT o.ctid FROM %1$s o WHERE o.workspace_id = $1 %2$s LIMIT $2))',
        t, CASE t WHEN 'executions'::regclass THEN 'AND NOT EXISTS (SELECT FROM executions c WHERE c.workspace_id = $1 AND c.parent_id = o.id LIMIT 1 OFFSET 0)' ELSE '' END)
        USING ws, left_over;
      GET DIAGNOSTICS gone = ROW_COUNT;
      left_over := left_over - gone;
      IF left_over <= 0 THEN
        RETURN true;
      END IF;
      EXIT WHEN gone = 0 OR t <> 'executions'::regclass;
    END LOOP;
  END LOOP;
  DELETE FROM workspaces w WHERE w.id = ws;
  RETURN false;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_erase(bigint) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_erase(bigint) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_erase(bigint) TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
SET LOCAL lock_timeout = '10s';
DROP FUNCTION lk_erase(bigint);
DELETE FROM workspaces WHERE NOT open;
ALTER TABLE agent_locks DROP CONSTRAINT agent_locks_workspace_id_workspace_open_fkey;
ALTER TABLE agent_locks ADD FOREIGN KEY (workspace_id) REFERENCES workspaces (id) ON DELETE CASCADE;
ALTER TABLE agent_locks DROP COLUMN workspace_open;
DROP INDEX workspaces_open;
ALTER TABLE workspaces DROP COLUMN open;
