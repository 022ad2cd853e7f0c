-- why: SQLite has no stored functions; a refusal yields no row here, and the caller looks who holds the lane.

-- name: Acquire
INSERT INTO agent_locks AS l (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at, execution_id, trace_id)
SELECT $1, $2, $4, $3, lk_now() / 1000, $5, lk_now(), lk_plus(lk_now(), $5), $6, $7
 WHERE NOT EXISTS (SELECT 1 FROM agent_locks o
                    WHERE o.workspace_id = $1 AND o.lane = $2 AND o.expires_at > lk_now() AND o.token <> $3)
ON CONFLICT (workspace_id, lane) DO UPDATE SET
  locked_by = excluded.locked_by, token = excluded.token, ttl_ms = excluded.ttl_ms,
  fence = CASE WHEN l.token = excluded.token THEN l.fence ELSE max(l.fence + 1, excluded.fence) END,
  locked_at = CASE WHEN l.token = excluded.token THEN l.locked_at ELSE excluded.locked_at END,
  expires_at = excluded.expires_at,
  wanted_at = CASE WHEN l.token = excluded.token THEN l.wanted_at END,
  wanted_by = CASE WHEN l.token = excluded.token THEN l.wanted_by END,
  execution_id = excluded.execution_id, trace_id = excluded.trace_id
RETURNING true, lane, locked_by, fence, ttl_ms, locked_at, expires_at, wanted_at, wanted_by, execution_id, trace_id,
  true, lk_now();

-- name: Renew
UPDATE agent_locks SET expires_at = lk_plus(lk_now(), $4), ttl_ms = $4
 WHERE workspace_id = $1 AND lane = $2 AND token = $3 AND expires_at > lk_now()
RETURNING fence, expires_at, wanted_by;

-- name: RenewAll
UPDATE agent_locks SET expires_at = lk_plus(lk_now(), h.ttl), ttl_ms = h.ttl
  FROM (SELECT value ->> 'lane' AS held, value ->> 'token' AS proof, value ->> 'ttl_ms' AS ttl FROM json_each($2)) h
 WHERE workspace_id = $1 AND lane = h.held AND token = h.proof AND expires_at > lk_now()
RETURNING lane, fence, expires_at, wanted_by;

-- name: Line
-- One transaction writes at a time.
SELECT 1 WHERE $1 IS NULL AND $2 IS NULL;

-- name: Release
UPDATE agent_locks SET expires_at = lk_now(), token = NULL, wanted_at = NULL, wanted_by = NULL
 WHERE workspace_id = $1 AND lane = $2 AND token = $3 AND expires_at > lk_now()
RETURNING 'released';

-- name: Want
UPDATE agent_locks SET wanted_at = lk_now(), wanted_by = $4
 WHERE workspace_id = $1 AND lane = $2 AND fence = $3 AND token IS NOT NULL AND wanted_at IS NULL;

-- name: Hurry
-- global: about the transaction
SELECT 1;
