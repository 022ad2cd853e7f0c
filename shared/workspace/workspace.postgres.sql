-- why: row-level security shows one workspace, so that only a function of the owner's looks into all; and writers work
-- side by side, so that who decides locks first.

-- name: Unserved
-- global: the schedule's tick serves every workspace
SELECT u.id
  FROM lk_workspaces_unserved($1, $2, $3, $4, $5) WITH ORDINALITY u (id, place) JOIN workspaces w ON w.id = u.id AND w.open
 ORDER BY u.place;

-- name: Due
-- global: maintenance looks into every workspace
SELECT w.id, w.open FROM workspaces w WHERE NOT w.open OR w.id IN (SELECT lk_workspaces_due($1)) ORDER BY w.id;

-- name: LockLanes
SELECT 1 FROM agent_locks WHERE workspace_id = $1 ORDER BY lane FOR UPDATE;

-- name: LockHead
-- A transaction that adds a row to the workspace, such as a lane, waits for this lock.
SELECT 1 FROM workspaces WHERE id = $1 FOR UPDATE;

-- name: Erase
SELECT lk_erase(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;
