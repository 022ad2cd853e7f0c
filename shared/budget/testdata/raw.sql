-- name: BySkill
SELECT skill_name, CAST(day AS text), tokens, cost_micro_usd FROM agent_tokens_by_skill WHERE workspace_id = $1 ORDER BY tokens DESC, skill_name;
