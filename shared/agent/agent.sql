-- part: row
-- With when the task began that an agent began last of those that run and, of an agent of the built-in worker, when
-- the first hold on one of its tasks ends.
a.id, a.name, a.model, a.status, a.capabilities, a.coordinator_enabled, a.max_concurrent_tasks, a.heartbeat_interval_seconds,
       a.stale_threshold_seconds, a.spawner, a.spawner_target, a.token_generation,
       (SELECT count(*) FROM agent_task_attempts t WHERE t.workspace_id = $1 AND t.agent_id = a.id AND t.ended_at IS NULL),
       a.health, a.current_task_id, a.progress_percent, a.current_step, a.memory_mb, a.cpu_percent, a.last_seen_at, a.next_expected_at,
       a.idle_since, a.version, a.created_by, a.created_at, a.updated_at, a.terminated_at, a.termination_reason,
       (SELECT max(r.started_at)
          FROM agent_task_attempts t JOIN agent_tasks r ON r.workspace_id = t.workspace_id AND r.id = t.task_id AND r.status = 'RUNNING'
         WHERE t.workspace_id = $1 AND t.agent_id = a.id AND t.ended_at IS NULL),
       CASE a.spawner WHEN 'builtin' THEN
         (SELECT min(l.expires_at) FROM agent_task_attempts t
            JOIN agent_locks l ON l.workspace_id = t.workspace_id AND l.lane = 'task:' || CAST(t.task_id AS text) AND l.token IS NOT NULL
           WHERE t.workspace_id = $1 AND t.agent_id = a.id AND t.ended_at IS NULL) END,
       lk_now()

-- name: Get
SELECT @row
  FROM agents a
 WHERE a.workspace_id = $1 AND a.id = $2;

-- name: Insert
INSERT INTO agents (workspace_id, id, name, model, capabilities, coordinator_enabled, max_concurrent_tasks, heartbeat_interval_seconds,
  stale_threshold_seconds, spawner, spawner_target, created_by, idle_since, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, n.at, n.at, n.at
  FROM (SELECT lk_now() AS at) n
 WHERE true
ON CONFLICT (workspace_id, id) DO NOTHING;

-- name: Update
UPDATE agents SET name = $3, model = $4, capabilities = $5, coordinator_enabled = $6, max_concurrent_tasks = $7,
       heartbeat_interval_seconds = $8, stale_threshold_seconds = $9, spawner = $10, spawner_target = $11,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND terminated_at IS NULL;

-- name: Beat
-- $3 says that the agent calls itself degraded. The row was locked by a statement before.
UPDATE agents SET
       status = CASE WHEN status = 'DRAINING' AND NOT EXISTS (
                            SELECT 1 FROM agent_task_attempts t WHERE t.workspace_id = $1 AND t.agent_id = $2 AND t.ended_at IS NULL) THEN 'TERMINATED'
                     WHEN status = 'DRAINING' THEN status
                     WHEN $3 THEN 'DEGRADED'
                     WHEN EXISTS (
                            SELECT 1 FROM agent_task_attempts t WHERE t.workspace_id = $1 AND t.agent_id = $2 AND t.ended_at IS NULL) THEN 'WORKING'
                     ELSE 'IDLE' END,
       terminated_at = CASE WHEN status = 'DRAINING' AND NOT EXISTS (
                            SELECT 1 FROM agent_task_attempts t WHERE t.workspace_id = $1 AND t.agent_id = $2 AND t.ended_at IS NULL) THEN lk_now() END,
       idle_since = CASE WHEN NOT EXISTS (
                            SELECT 1 FROM agent_task_attempts t WHERE t.workspace_id = $1 AND t.agent_id = $2 AND t.ended_at IS NULL)
                         THEN coalesce(idle_since, lk_now()) END,
       health = CASE WHEN $3 THEN 'degraded' ELSE 'healthy' END,
       current_task_id = $4, progress_percent = $5, current_step = $6, memory_mb = $7, cpu_percent = $8,
       last_seen_at = lk_now(), next_expected_at = lk_plus(lk_now(), heartbeat_interval_seconds * CAST(1000 AS bigint))
 WHERE workspace_id = $1 AND id = $2 AND terminated_at IS NULL;

-- name: StatusOf
SELECT status, termination_reason FROM agents WHERE workspace_id = $1 AND id = $2;

-- name: Attempts
-- The open attempts of an agent, and those of the task $3 that are over, or its attempt $4 alone. A
-- task is late as the coordinator says.
SELECT t.id, a.number, a.outcome, t.status, t.cancelled, t.status_reason, t.attempt,
       coalesce(t.status = 'RUNNING' AND lk_plus(t.started_at, coalesce(t.estimated_duration_minutes, 0) * CAST(60000 AS bigint) + 1800000)
           <= lk_now() AND coalesce(lk_plus(t.estimated_completion_at, 1800000) <= lk_now(), t.estimated_duration_minutes IS NOT NULL), false)
  FROM agent_task_attempts a
  JOIN agent_tasks t ON t.workspace_id = a.workspace_id AND t.id = a.task_id
 WHERE a.workspace_id = $1 AND a.agent_id = $2 AND a.ended_at IS NULL
UNION ALL
SELECT t.id, a.number, a.outcome, t.status, t.cancelled, t.status_reason, t.attempt, false
  FROM agent_task_attempts a
  JOIN agent_tasks t ON t.workspace_id = a.workspace_id AND t.id = a.task_id
 WHERE a.workspace_id = $1 AND a.agent_id = $2 AND a.ended_at IS NOT NULL
   AND a.task_id = $3
   AND a.number BETWEEN coalesce(CAST($4 AS integer), 0) AND coalesce(CAST($4 AS integer), 2147483647);

-- name: Heartbeats
SELECT status, task_id, progress_percent, current_step, memory_mb, cpu_percent, created_at
  FROM agent_heartbeats
 WHERE workspace_id = $1 AND agent_id = $2
 ORDER BY id DESC
 LIMIT $3;

-- name: Generation
-- No agent of a workspace that is being deleted has a valid token.
SELECT token_generation FROM agents
 WHERE workspace_id = $1 AND id = $2 AND terminated_at IS NULL AND EXISTS (SELECT 1 FROM workspaces WHERE id = $1 AND open);

-- name: Rotate
UPDATE agents SET token_generation = token_generation + 1, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND terminated_at IS NULL;

-- name: Drain
UPDATE agents SET status = 'DRAINING', termination_reason = coalesce($3, termination_reason), version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND terminated_at IS NULL;

-- name: Terminate
UPDATE agents SET status = 'TERMINATED', terminated_at = lk_now(), termination_reason = coalesce($3, termination_reason),
       idle_since = NULL, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND terminated_at IS NULL;

-- name: EndDrained
UPDATE agents SET status = 'TERMINATED', terminated_at = lk_now(), idle_since = NULL, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id BETWEEN $2 AND $3 AND status = 'DRAINING' AND terminated_at IS NULL
   AND NOT EXISTS (SELECT 1 FROM agent_task_attempts t WHERE t.workspace_id = $1 AND t.agent_id = agents.id AND t.ended_at IS NULL);

-- name: ModelOf
-- The model that an attempt is to be done with: the agent's own, or else the routed one.
SELECT coalesce(a.model, t.model, '')
  FROM agent_task_attempts t JOIN agents a ON a.workspace_id = t.workspace_id AND a.id = t.agent_id
 WHERE t.workspace_id = $1 AND t.task_id = $2 AND t.number = $3;

-- name: OpenAttempts
SELECT task_id, number FROM agent_task_attempts WHERE workspace_id = $1 AND agent_id = $2 AND ended_at IS NULL ORDER BY task_id;
