-- why: the engines add microseconds to a time differently, and a purge must not wait for concurrent writers.

-- name: Take
-- $3 is how long the taken tokens take to return, $4 how long the other tokens of a full bucket
-- take, both in microseconds. excluded.full_at contains the time of the request: full_at less $3.
-- So both columns use the same time. A bucket that owes more than it holds, because its limit was
-- lowered or the clock was set back, counts as empty. That uses the time after the wait for the
-- row. With the earlier time, a request that waited would give tokens back.
INSERT INTO rate_limits AS r (workspace_id, key, full_at, granted)
VALUES ($1, $2, lk_now() + $3 * interval '1 microsecond', true)
ON CONFLICT (workspace_id, key) DO UPDATE SET
  granted = r.full_at + $3 * interval '1 microsecond' <= excluded.full_at + $4 * interval '1 microsecond',
  full_at = CASE WHEN r.full_at + $3 * interval '1 microsecond' <= excluded.full_at + $4 * interval '1 microsecond'
                 THEN greatest(r.full_at + $3 * interval '1 microsecond', excluded.full_at)
                 ELSE least(r.full_at, lk_now() + ($3 + $4) * interval '1 microsecond') END
RETURNING granted, (extract(epoch FROM full_at - lk_now()) * 1000000)::bigint - $4;

-- name: Purge
WITH idle AS MATERIALIZED (
  SELECT key FROM rate_limits
   WHERE workspace_id = $1 AND full_at < (SELECT lk_plus(lk_now(), -3600000))
   LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM rate_limits r USING idle WHERE r.workspace_id = $1 AND r.key = idle.key;
