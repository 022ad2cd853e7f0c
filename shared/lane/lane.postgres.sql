-- why: on Postgres the deciding statements are functions, shared with clients in other languages.

-- name: Acquire
SELECT a.acquired, a.lane, a.locked_by, a.fence, a.ttl_ms, a.locked_at, a.expires_at,
       a.wanted_at, a.wanted_by, a.execution_id, a.trace_id, true, a.as_of
  FROM lk_lane_acquire($1, $2, $3, $4, $5, $6, $7) a;

-- name: Renew
SELECT r.fence, r.expires_at, r.wanted_by FROM lk_lane_renew($1, $2, $3, $4) r;

-- name: RenewAll
-- In the order of the list: row locks are taken in that order.
SELECT h.lane, r.fence, r.expires_at, r.wanted_by
  FROM jsonb_to_recordset(CAST($2 AS jsonb)) h (lane text, token uuid, ttl_ms bigint)
 CROSS JOIN LATERAL lk_lane_renew($1, h.lane, h.token, h.ttl_ms) r;

-- name: Line
-- Locks the rows of several lanes in the order of their names.
SELECT lane FROM agent_locks
 WHERE workspace_id = $1 AND lane IN (SELECT l.name FROM jsonb_array_elements_text(CAST($2 AS jsonb)) l (name))
 ORDER BY lane COLLATE "C"
   FOR NO KEY UPDATE;

-- name: Release
SELECT 'released' FROM lk_lane_release($1, $2, $3);

-- name: Want
-- Marks the hold with this fence once; the mark of an earlier waiter stays. A row that its holder's
-- transaction has locked is skipped.
UPDATE agent_locks SET wanted_at = lk_now(), wanted_by = $4
 WHERE workspace_id = $1 AND lane = $2 AND fence = $3 AND token IS NOT NULL AND wanted_at IS NULL
   AND lane IN (SELECT o.lane FROM agent_locks o WHERE o.workspace_id = $1 AND o.lane = $2 FOR NO KEY UPDATE SKIP LOCKED);

-- name: Hurry
-- global: about the transaction
SELECT set_config('lock_timeout', '2s', true);
