-- name: Set
-- One that is on stays as it is. Its row is locked, so that a release comes after who sets it.
INSERT INTO kill_switches (workspace_id, id, scope, target, reason, set_by, set_at)
VALUES ($1, $2, $3, $4, $5, $6, lk_now())
ON CONFLICT (workspace_id, scope, target) WHERE released_at IS NULL DO UPDATE SET set_by = kill_switches.set_by;

-- name: On
SELECT id, scope, target, reason, set_by, set_at, released_by, released_at
  FROM kill_switches
 WHERE workspace_id = $1 AND scope = $2 AND target = $3 AND released_at IS NULL;

-- name: AllOn
SELECT id, scope, target, reason, set_by, set_at, released_by, released_at
  FROM kill_switches
 WHERE workspace_id = $1 AND released_at IS NULL
 ORDER BY set_at;

-- name: List
SELECT id, scope, target, reason, set_by, set_at, released_by, released_at
  FROM kill_switches
 WHERE workspace_id = $1 AND (set_at, id) < ($2, $3)
   AND (CAST($4 AS boolean) IS NULL OR (released_at IS NULL) = $4)
 ORDER BY set_at DESC, id DESC
 LIMIT $5;

-- name: Get
SELECT id, scope, target, reason, set_by, set_at, released_by, released_at
  FROM kill_switches
 WHERE workspace_id = $1 AND id = $2;

-- name: Release
UPDATE kill_switches SET released_by = $3, released_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND released_at IS NULL;
