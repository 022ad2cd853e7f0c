-- name: BySkill
SELECT skill_name, CAST(day AS text), tokens, cost_micro_usd FROM agent_tokens_by_skill WHERE workspace_id = $1 ORDER BY tokens DESC, skill_name;
-- name: Assign
UPDATE agent_tasks SET status = 'ASSIGNED', attempt = attempt + 1, agent_id = $3, assigned_at = lk_now(), version = version + 1
 WHERE workspace_id = $1 AND id = $2 AND status = 'PENDING';
-- name: Attempt
INSERT INTO agent_task_attempts (workspace_id, task_id, number, agent_id, started_at)
SELECT t.workspace_id, t.id, t.attempt, t.agent_id, lk_now() FROM agent_tasks t WHERE t.workspace_id = $1 AND t.id = $2;
-- name: Start
UPDATE agent_tasks SET status = 'RUNNING', started_at = lk_now(), version = version + 1 WHERE workspace_id = $1 AND id = $2 AND status = 'ASSIGNED';
-- name: Project
INSERT INTO projects (workspace_id, id, name, created_by, created_at, updated_at) VALUES ($1, $2, $3, 'user:ada', lk_now(), lk_now());
-- name: Happened
SELECT kind, subject FROM events WHERE workspace_id = $1 AND kind IN ('budget.warning', 'budget.exhausted') ORDER BY xid, id;
-- name: AddTasks
INSERT INTO agent_tasks (workspace_id, id, title, task_type, metadata, created_by, created_at, updated_at)
VALUES ($1, $2, 'one of many', $3, $4, 'user:ada', lk_now(), lk_now());
-- name: AddUsage
INSERT INTO agent_usage_logs (workspace_id, id, trace_id, task_id, agent, surface, operation, model, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, created_at)
VALUES ($1, $2, '', $3, 'a', 'co', 'model_call', 'demo', $4, 0, 0, 0, lk_now());
-- name: FinishAll
UPDATE agent_tasks SET status = 'COMPLETED', completed_at = lk_now() WHERE workspace_id = $1 AND status = 'PENDING';
-- name: CapMoney
UPDATE usage_budgets SET allocated_micro_usd = $3 WHERE workspace_id = $1 AND id = $2;
-- name: EndAttempts
UPDATE agent_task_attempts SET ended_at = lk_now(), outcome = 'aborted' WHERE workspace_id = $1 AND ended_at IS NULL;
-- name: UsedByTask
SELECT task_id, CAST(sum(total_tokens) AS bigint) FROM agent_usage_logs WHERE workspace_id = $1 AND task_id IS NOT NULL GROUP BY task_id;
-- name: HoldWorkspace
UPDATE workspaces SET name = name WHERE id = $1;
-- name: AddCall
INSERT INTO agent_usage_logs (workspace_id, id, trace_id, agent, surface, operation, model, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, cost_micro_usd, skills, created_at)
VALUES ($1, $2, '', 'ann', 'hb', 'reason', 'demo', $3, 7, 5, 3, $4, $5, $6);
-- name: BySkillAndDay
SELECT CAST(day AS text), skill_name, tokens, cost_micro_usd FROM agent_tokens_by_skill WHERE workspace_id = $1;
