-- name: Workspace
-- global: it makes one
INSERT INTO workspaces (id, slug, name, created_at) VALUES ($1, 'spending', 'Spending', lk_now());

-- name: Task
INSERT INTO agent_tasks (workspace_id, id, title, task_type, metadata, created_by, created_at, updated_at)
VALUES ($1, $2, 'a task', $3, $4, 'user:rig', lk_now(), lk_now());

-- name: Usage
INSERT INTO agent_usage_logs (workspace_id, id, trace_id, task_id, agent, surface, operation, model, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, created_at)
VALUES ($1, $2, '', $3, 'rig', 'co', 'model_call', 'demo', $4, 0, 0, 0, lk_now());

-- name: Finish
UPDATE agent_tasks SET status = 'COMPLETED', completed_at = lk_now() WHERE workspace_id = $1 AND status = 'PENDING';
