-- name: Put
-- A register that a lane protects. It is the row of a lane that nobody acquires: locked_by holds
-- the value, fence holds its writer's fence.
INSERT INTO agent_locks (workspace_id, lane, locked_by, fence, ttl_ms, locked_at, expires_at)
VALUES ($1, $2, $4, $3, 1, lk_now(), lk_now())
ON CONFLICT (workspace_id, lane) DO UPDATE SET locked_by = excluded.locked_by, fence = excluded.fence;

-- name: Get
SELECT fence, locked_by FROM agent_locks WHERE workspace_id = $1 AND lane = $2;
