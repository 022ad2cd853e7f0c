-- why: SQLite has one writer, so that nothing needs a lock, and its own functions for JSON.

-- name: Lock
SELECT 1 FROM agents WHERE workspace_id = $1 AND id = $2;

-- name: AddHeartbeat
-- The agent's row has what the heartbeat said.
INSERT INTO agent_heartbeats (workspace_id, agent_id, id, status, task_id, progress_percent, current_step, memory_mb, cpu_percent, created_at)
SELECT a.workspace_id, a.id, $3, a.status, a.current_task_id, a.progress_percent, a.current_step, a.memory_mb, a.cpu_percent, a.last_seen_at
  FROM agents a
 WHERE a.workspace_id = $1 AND a.id = $2 AND a.terminated_at IS NULL;

-- name: List
SELECT @row
  FROM agents a
 WHERE a.workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR a.status = $2)
   AND ($3 IS NULL OR a.coordinator_enabled = $3)
   AND (CAST($4 AS text) IS NULL OR EXISTS (SELECT 1 FROM json_each(a.capabilities) c WHERE c.value = $4))
   AND (a.created_at, a.id) < ($5, $6)
 ORDER BY a.created_at DESC, a.id DESC
 LIMIT $7;
