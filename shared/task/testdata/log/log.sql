-- name: Changed
INSERT INTO agent_task_logs (workspace_id, id, task_id, level, event, message, previous_status, new_status, attempt, actor, created_at)
SELECT t.workspace_id, $3, t.id, 'INFO', 'state_transition', 'the coordinator did it', $4, t.status, t.attempt, 'coordinator', lk_now()
  FROM agent_tasks t WHERE t.workspace_id = $1 AND t.id = $2;
