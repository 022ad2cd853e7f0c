-- name: AddActivity
INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, input, output, error_message, duration_ms, trace_id, execution_id, created_at)
VALUES ($1, $2, 'ada', 'hb', 'look', 'error', '{"in":"SECRET"}', '{"out":"SECRET"}', 'SECRET', 12, 'trace', $2, lk_now());

-- name: AddBareActivity
INSERT INTO agent_activity (workspace_id, id, agent, surface, status, trace_id, created_at)
VALUES ($1, $2, 'ada', 'op', 'success', 'trace', lk_now());

-- name: AddExecution
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, input, created_at, updated_at)
VALUES ($1, $2, 'ada', 'hb', 'trace', 'objective:1', 'running', '{"in":"SECRET"}', lk_now(), lk_now());

-- name: SetExecution
UPDATE executions SET status = $3, error = 'SECRET', updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: SpendExecution
UPDATE executions SET prompt_tokens = prompt_tokens + 1, updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: AddApproval
INSERT INTO approvals (workspace_id, id, skill, arguments, digest, why, execution_id, call_id, agent, surface, trace_id, requested_at, expires_at)
VALUES ($1, $2, 'pay', '{"in":"SECRET"}', 'digest', 'SECRET', $2, '1.1', 'ada', 'hb', 'trace', lk_now(), lk_now());

-- name: SetApproval
UPDATE approvals SET status = $3, reason = 'SECRET', decided_at = lk_now(), decided_by = 'user:bob',
       executed_at = CASE WHEN $3 = 'executed' THEN lk_now() END
 WHERE workspace_id = $1 AND id = $2;

-- name: AddSkill
INSERT INTO agent_skills (workspace_id, id, name, kind, enabled, disabled_by, disabled_at, created_by, created_at, updated_at)
VALUES ($1, $2, 'look', 'builtin', $3, $4, CASE WHEN CAST($4 AS text) IS NULL THEN NULL ELSE lk_now() END, 'bob', lk_now(), lk_now());

-- name: SetSkill
UPDATE agent_skills SET enabled = $3, disabled_by = $4, disabled_at = CASE WHEN CAST($4 AS text) IS NULL THEN NULL ELSE lk_now() END
 WHERE workspace_id = $1 AND id = $2;

-- name: AddAutomation
INSERT INTO agent_automations (workspace_id, id, name, skill, cron, time_zone, created_by, created_at, updated_at)
VALUES ($1, $2, 'nightly', 'look', '0 0 * * *', 'UTC', 'bob', lk_now(), lk_now());

-- name: SetAutomation
UPDATE agent_automations SET enabled = $3, disabled_by = $4, disabled_at = CASE WHEN CAST($4 AS text) IS NULL THEN NULL ELSE lk_now() END
 WHERE workspace_id = $1 AND id = $2;

-- name: AddObjective
INSERT INTO agent_objectives (workspace_id, id, title, description, created_by, created_at, updated_at)
VALUES ($1, $2, 'Grow', 'SECRET', 'bob', lk_now(), lk_now());

-- name: SetObjective
UPDATE agent_objectives SET status = $3, status_reason = 'SECRET', updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: SaveMemory
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, trace_id, created_at, updated_at)
VALUES ($1, $2, 'ada', 'fact', 'SECRET', 'hash', 'trace', lk_now(), lk_now())
ON CONFLICT (workspace_id, agent, content_hash) DO UPDATE SET importance = 9;

-- name: ForgetMemory
DELETE FROM agent_memory WHERE workspace_id = $1 AND id = $2;

-- name: DeleteWorkspace
DELETE FROM workspaces WHERE id = $1;
