-- name: Busy
SELECT fence FROM agent_locks
 WHERE workspace_id = $1 AND lane = $2 AND token <> $3 AND expires_at > lk_now();

-- name: Take
-- Acquires whoever holds the lane.
INSERT INTO agent_locks AS l (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, $2, $3, $4, 1, $5, lk_now(), lk_plus(lk_now(), $5))
ON CONFLICT (workspace_id, lane) DO UPDATE SET
  locked_by = excluded.locked_by, token = excluded.token,
  fence = CASE WHEN l.token = excluded.token THEN l.fence ELSE l.fence + 1 END, expires_at = excluded.expires_at
RETURNING fence, expires_at;

-- name: TakeByName
-- The holder's name decides instead of the token.
INSERT INTO agent_locks AS l (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, $2, $3, $4, 1, $5, lk_now(), lk_plus(lk_now(), $5))
ON CONFLICT (workspace_id, lane) DO UPDATE SET
  locked_by = excluded.locked_by, token = excluded.token,
  fence = CASE WHEN l.token = excluded.token THEN l.fence ELSE l.fence + 1 END, expires_at = excluded.expires_at
  WHERE l.token IS NULL OR l.token = excluded.token OR l.expires_at <= lk_now() OR l.locked_by = excluded.locked_by
RETURNING fence, expires_at;

-- name: TakeUnfenced
-- The fence does not change.
INSERT INTO agent_locks AS l (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, $2, $3, $4, 1, $5, lk_now(), lk_plus(lk_now(), $5))
ON CONFLICT (workspace_id, lane) DO UPDATE SET
  locked_by = excluded.locked_by, token = excluded.token, expires_at = excluded.expires_at
  WHERE l.token IS NULL OR l.token = excluded.token OR l.expires_at <= lk_now()
RETURNING fence, expires_at;

-- name: TakeAt
-- Correct if $6 is the time. now() would be the start of its transaction.
INSERT INTO agent_locks AS l (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, $2, $3, $4, 1, $5, $6, lk_plus($6, $5))
ON CONFLICT (workspace_id, lane) DO UPDATE SET
  locked_by = excluded.locked_by, token = excluded.token,
  fence = CASE WHEN l.token = excluded.token THEN l.fence ELSE l.fence + 1 END, expires_at = excluded.expires_at
  WHERE l.token IS NULL OR l.token = excluded.token OR l.expires_at <= excluded.locked_at
RETURNING fence, expires_at;

-- name: ReleaseAny
-- Does not check who holds the lane.
UPDATE agent_locks SET expires_at = lk_now(), token = NULL WHERE workspace_id = $1 AND lane = $2;

-- name: PutBeside
-- Reads the hold in the statement that writes, but does not lock it.
INSERT INTO agent_locks (workspace_id, lane, locked_by, fence, ttl_ms, locked_at, expires_at)
SELECT $1, $2, $4, $3, 1, lk_now(), lk_now()
 WHERE EXISTS (SELECT 1 FROM agent_locks o
                WHERE o.workspace_id = $1 AND o.lane = $5 AND o.token = $6 AND o.expires_at > lk_now())
ON CONFLICT (workspace_id, lane) DO UPDATE SET locked_by = excluded.locked_by, fence = excluded.fence
RETURNING fence;
