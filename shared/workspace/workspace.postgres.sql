-- why: row-level security shows one workspace, so that only a function of the owner's looks into all; and writers work
-- side by side, so that who decides locks first.

-- name: Unserved
-- global: the schedule's tick serves every workspace
SELECT * FROM lk_workspaces_unserved($1, $2, $3, $4, $5);

-- name: Due
-- global: maintenance looks into every workspace
SELECT * FROM lk_workspaces_due($1);

-- name: LockLanes
SELECT 1 FROM agent_locks WHERE workspace_id = $1 ORDER BY lane FOR UPDATE;

-- name: LockHead
-- A transaction that adds a row to the workspace, such as a lane, waits for this lock.
SELECT 1 FROM workspaces WHERE id = $1 FOR UPDATE;
