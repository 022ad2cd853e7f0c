-- name: Busy
SELECT fence FROM agent_locks
 WHERE workspace_id = $1 AND lane = $2 AND token <> $3 AND expires_at > lk_now();

-- name: Take
-- Whoever holds it.
INSERT INTO agent_locks AS l (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, $2, $3, $4, 1, $5, lk_now(), lk_plus(lk_now(), $5))
ON CONFLICT (workspace_id, lane) DO UPDATE SET
  locked_by = excluded.locked_by, token = excluded.token,
  fence = CASE WHEN l.token = excluded.token THEN l.fence ELSE l.fence + 1 END, expires_at = excluded.expires_at
RETURNING fence, expires_at;

-- name: TakeByName
-- The holder's name decides in place of the token.
INSERT INTO agent_locks AS l (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, $2, $3, $4, 1, $5, lk_now(), lk_plus(lk_now(), $5))
ON CONFLICT (workspace_id, lane) DO UPDATE SET
  locked_by = excluded.locked_by, token = excluded.token,
  fence = CASE WHEN l.token = excluded.token THEN l.fence ELSE l.fence + 1 END, expires_at = excluded.expires_at
  WHERE l.token IS NULL OR l.token = excluded.token OR l.expires_at <= lk_now() OR l.locked_by = excluded.locked_by
RETURNING fence, expires_at;

-- name: TakeUnfenced
-- The fence stays what it was.
INSERT INTO agent_locks AS l (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, $2, $3, $4, 1, $5, lk_now(), lk_plus(lk_now(), $5))
ON CONFLICT (workspace_id, lane) DO UPDATE SET
  locked_by = excluded.locked_by, token = excluded.token, expires_at = excluded.expires_at
  WHERE l.token IS NULL OR l.token = excluded.token OR l.expires_at <= lk_now()
RETURNING fence, expires_at;

-- name: TakeAt
-- Right, if $6 is the time: what now() would be in its place is its transaction's start.
INSERT INTO agent_locks AS l (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, $2, $3, $4, 1, $5, $6, lk_plus($6, $5))
ON CONFLICT (workspace_id, lane) DO UPDATE SET
  locked_by = excluded.locked_by, token = excluded.token,
  fence = CASE WHEN l.token = excluded.token THEN l.fence ELSE l.fence + 1 END, expires_at = excluded.expires_at
  WHERE l.token IS NULL OR l.token = excluded.token OR l.expires_at <= excluded.locked_at
RETURNING fence, expires_at;

-- name: ReleaseAny
-- Without asking whose it is.
UPDATE agent_locks SET expires_at = lk_now(), token = NULL WHERE workspace_id = $1 AND lane = $2;

-- name: PutBeside
-- The hold is looked at beside the write and not locked.
INSERT INTO agent_locks (workspace_id, lane, locked_by, fence, ttl_ms, locked_at, expires_at)
SELECT $1, $2, $4, $3, 1, lk_now(), lk_now()
 WHERE EXISTS (SELECT 1 FROM agent_locks o
                WHERE o.workspace_id = $1 AND o.lane = $5 AND o.token = $6 AND o.expires_at > lk_now())
ON CONFLICT (workspace_id, lane) DO UPDATE SET locked_by = excluded.locked_by, fence = excluded.fence
RETURNING fence;
