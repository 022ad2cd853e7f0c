-- name: Agent
DELETE FROM agents
 WHERE workspace_id = $1 AND id = $2 AND created_by = $3 AND status = 'TERMINATED'
   AND NOT EXISTS (SELECT 1 FROM agent_tasks t
                    WHERE t.workspace_id = $1 AND t.created_by <> $3
                      AND (t.agent_id = $2 OR EXISTS (SELECT 1 FROM agent_task_attempts a
                                                       WHERE a.workspace_id = $1 AND a.task_id = t.id AND a.agent_id = $2)));
