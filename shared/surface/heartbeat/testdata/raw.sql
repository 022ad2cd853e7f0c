-- name: Executions
SELECT id, coalesce(subject, ''), coalesce(slot, ''), status, attempt, trace_id, coalesce(CAST(parent_id AS text), ''), coalesce(error, ''),
       prompt_tokens + completion_tokens
  FROM executions WHERE workspace_id = $1
 ORDER BY created_at, id;

-- name: Story
SELECT skill_name, status, coalesce(error_message, ''), coalesce(CAST(execution_id AS text), '')
  FROM agent_activity
 WHERE workspace_id = $1 AND conversation_id = $2
 ORDER BY created_at, id;

-- name: Attempts
UPDATE executions SET attempt = $3 WHERE workspace_id = $1 AND id = $2;

-- name: Settings
-- global: workspaces is a global table
UPDATE workspaces SET settings = $2 WHERE id = $1;
