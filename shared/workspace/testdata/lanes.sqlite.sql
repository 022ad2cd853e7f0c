-- why: on Postgres a function acquires a lane.

-- name: Acquire
INSERT INTO agent_locks (workspace_id, lane, locked_by, token, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, 'x', 'them', '01a203f9-9c2d-7078-8578-3917691c92fa', 1, 60000, lk_now(), lk_plus(lk_now(), 60000))
ON CONFLICT (workspace_id, lane) DO UPDATE SET token = excluded.token, expires_at = excluded.expires_at
RETURNING true;
