-- name: Used
-- A model call of the past, which only the demo has.
INSERT INTO agent_usage_logs (workspace_id, id, trace_id, session_id, agent, surface, operation, model, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, cost_micro_usd, skills, created_at)
VALUES ($1, $2, $3, 'demo', $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, $13) ON CONFLICT DO NOTHING;

-- name: Burnt
-- The budgets of the demo count as if they had been there since their period began.
UPDATE usage_budgets
   SET consumed = (SELECT coalesce(sum(l.total_tokens), 0) FROM agent_usage_logs l
                    WHERE l.workspace_id = usage_budgets.workspace_id AND l.created_at >= usage_budgets.period_start),
       created_at = period_start
 WHERE workspace_id = $1 AND scope = 'global' AND created_by = 'local:demo';
