-- why: SQLite has one writer, so nothing needs a lock, and it has other functions for dates.

-- name: Lock
SELECT b.id
  FROM usage_budgets b
 WHERE b.workspace_id = $1
   AND (b.scope = 'agent' AND b.scope_id IN ($2, $4) OR b.scope = 'skill' AND b.scope_id = $3 OR b.scope = 'global')
   AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now());

-- name: LockThese
SELECT $1 || $2 || $3;

-- name: LockReserved
SELECT $1 || $2;

-- name: LockPeriods
SELECT lk_now() FROM workspaces WHERE id = $1;

-- name: Usage
SELECT k.key, count(*), sum(k.input_tokens), sum(k.output_tokens), sum(k.cache_read_tokens),
       sum(k.cache_write_tokens), coalesce(sum(k.cost_micro_usd), 0), count(*) - count(k.cost_micro_usd)
  FROM (SELECT coalesce(CASE $2 WHEN 'agent' THEN l.agent WHEN 'model' THEN l.model WHEN 'surface' THEN l.surface
                                WHEN 'task' THEN l.task_id
                                WHEN 'day' THEN strftime('%Y-%m-%d', l.created_at / 1000000, 'unixepoch') END, '') AS key, l.*
          FROM agent_usage_logs l
         WHERE l.workspace_id = $1 AND l.created_at >= $3 AND l.created_at < $4) k
 GROUP BY k.key
 ORDER BY CASE WHEN $2 = 'day' THEN k.key END DESC, sum(k.total_tokens) DESC, k.key
 LIMIT $5;
