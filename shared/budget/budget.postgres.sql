-- why: Postgres has concurrent writers, which lock the rows that they decide on, in the order of ids; and it has other functions for dates.

-- name: Lock
SELECT b.id
  FROM usage_budgets b
 WHERE b.workspace_id = $1
   AND (b.scope = 'agent' AND b.scope_id IN ($2, $4) OR b.scope = 'skill' AND b.scope_id = $3 OR b.scope = 'global')
   AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now())
 ORDER BY b.id
   FOR NO KEY UPDATE;

-- name: LockThese
SELECT b.id FROM usage_budgets b WHERE b.workspace_id = $1 AND b.id IN ($2, $3) ORDER BY b.id FOR NO KEY UPDATE;

-- name: LockReserved
SELECT b.id
  FROM usage_budgets b
 WHERE b.workspace_id = $1 AND b.id IN (SELECT r.budget_id FROM usage_reservations r WHERE r.workspace_id = $1 AND r.id = $2)
 ORDER BY b.id
   FOR NO KEY UPDATE;

-- name: LockPeriods
SELECT lk_now() FROM workspaces WHERE id = $1 FOR NO KEY UPDATE;

-- name: Usage
SELECT k.key, count(*), CAST(sum(k.input_tokens) AS bigint), CAST(sum(k.output_tokens) AS bigint), CAST(sum(k.cache_read_tokens) AS bigint),
       CAST(sum(k.cache_write_tokens) AS bigint), CAST(coalesce(sum(k.cost_micro_usd), 0) AS bigint), count(*) - count(k.cost_micro_usd)
  FROM (SELECT coalesce(CASE $2 WHEN 'agent' THEN l.agent WHEN 'model' THEN l.model WHEN 'surface' THEN l.surface
                                WHEN 'task' THEN CAST(l.task_id AS text)
                                WHEN 'day' THEN to_char(l.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') END, '') AS key, l.*
          FROM agent_usage_logs l
         WHERE l.workspace_id = $1 AND l.created_at >= $3 AND l.created_at < $4) k
 GROUP BY k.key
 ORDER BY CASE WHEN $2 = 'day' THEN k.key END DESC, sum(k.total_tokens) DESC, k.key
 LIMIT $5;
