-- name: TokensBySkill
SELECT skill_name, CAST(sum(tokens) AS bigint), CAST(sum(cost_micro_usd) AS bigint)
  FROM agent_tokens_by_skill
 WHERE workspace_id = $1
 GROUP BY skill_name
 ORDER BY 2 DESC, 1;
