-- name: Peek
SELECT lane, locked_by, fence, ttl_ms, locked_at, expires_at, wanted_at, wanted_by, execution_id, trace_id,
       token IS NOT NULL, lk_now()
  FROM agent_locks
 WHERE workspace_id = $1 AND lane = $2;

-- name: List
SELECT lane, locked_by, fence, ttl_ms, locked_at, expires_at, wanted_at, wanted_by, execution_id, trace_id,
       token IS NOT NULL, lk_now()
  FROM agent_locks
 WHERE workspace_id = $1 AND token IS NOT NULL AND expires_at > (SELECT lk_now())
 ORDER BY locked_at, lane
 LIMIT $2;

-- name: Force
UPDATE agent_locks SET token = NULL, expires_at = lk_now(), wanted_at = NULL, wanted_by = NULL, execution_id = NULL
 WHERE workspace_id = $1 AND lane = $2 AND token IS NOT NULL AND expires_at > lk_now();

-- name: ForceHold
UPDATE agent_locks SET token = NULL, expires_at = lk_now(), wanted_at = NULL, wanted_by = NULL, execution_id = NULL
 WHERE workspace_id = $1 AND lane = $2 AND fence = $3 AND token IS NOT NULL AND expires_at > lk_now();

-- name: ReleaseOf
UPDATE agent_locks SET token = NULL, expires_at = lk_now(), wanted_at = NULL, wanted_by = NULL, execution_id = NULL
 WHERE workspace_id = $1 AND lane = $2 AND locked_by = $3 AND token IS NOT NULL AND expires_at > lk_now()
RETURNING lane;

-- name: Sweep
DELETE FROM agent_locks
 WHERE workspace_id = $1 AND expires_at < lk_plus((SELECT lk_now()), $2);
