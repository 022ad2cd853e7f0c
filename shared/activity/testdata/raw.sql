-- name: Story
SELECT skill_name, status, conversation_id, trace_id FROM agent_activity
 WHERE workspace_id = $1 AND conversation_id = $2
 ORDER BY created_at, id;

-- name: PutAt
INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, trace_id, created_at)
VALUES ($1, $2, 'flowpilot', 'hb', $3, 'success', $4, $5);

-- name: Count
SELECT count(*) FROM agent_activity WHERE workspace_id = $1;
