-- name: Get
SELECT a.id, a.name, a.model, a.status, a.capabilities, a.coordinator_enabled, a.max_concurrent_tasks, a.heartbeat_interval_seconds,
       a.stale_threshold_seconds, a.spawner, a.spawner_target, a.token_generation,
       (SELECT count(*) FROM agent_task_attempts t WHERE t.workspace_id = $1 AND t.agent_id = a.id AND t.ended_at IS NULL),
       a.health, a.current_task_id, a.progress_percent, a.current_step, a.memory_mb, a.cpu_percent, a.last_seen_at, a.next_expected_at,
       a.idle_since, a.version, a.created_by, a.created_at, a.updated_at, a.terminated_at, a.termination_reason, lk_now()
  FROM agents a
 WHERE a.workspace_id = $1 AND a.id = $2;

-- name: Insert
INSERT INTO agents (workspace_id, id, name, model, capabilities, coordinator_enabled, max_concurrent_tasks, heartbeat_interval_seconds,
  stale_threshold_seconds, spawner, spawner_target, created_by, idle_since, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, lk_now(), lk_now(), lk_now())
ON CONFLICT (workspace_id, id) DO NOTHING;

-- name: Update
UPDATE agents SET name = $3, model = $4, capabilities = $5, coordinator_enabled = $6, max_concurrent_tasks = $7,
       heartbeat_interval_seconds = $8, stale_threshold_seconds = $9, spawner = $10, spawner_target = $11,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND terminated_at IS NULL;
