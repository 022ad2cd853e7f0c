-- why: Postgres has writers side by side, who lock rows, and its own types and functions for JSON.

-- name: Lock
SELECT 1 FROM agents WHERE workspace_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: AddHeartbeat
-- The agent's row has what the heartbeat said.
INSERT INTO agent_heartbeats (workspace_id, agent_id, id, status, task_id, progress_percent, current_step, memory_mb, cpu_percent, created_at)
SELECT a.workspace_id, a.id, CAST($3 AS uuid), a.status, a.current_task_id, a.progress_percent, a.current_step, a.memory_mb, a.cpu_percent, a.last_seen_at
  FROM agents a
 WHERE a.workspace_id = $1 AND a.id = $2 AND a.terminated_at IS NULL;

-- name: List
SELECT @row
  FROM agents a
 WHERE a.workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR a.status = $2)
   AND (CAST($3 AS boolean) IS NULL OR a.coordinator_enabled = $3)
   AND (CAST($4 AS text) IS NULL OR CAST(a.capabilities AS jsonb) @> jsonb_build_array(CAST($4 AS text)))
   AND (a.created_at, a.id) < ($5, $6)
 ORDER BY a.created_at DESC, a.id DESC
 LIMIT $7;
