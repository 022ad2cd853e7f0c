-- why: SQLite has one writer, so nothing needs a lock, and it has other functions for dates.

-- part: newest
-- Of each scope c the newest budget b that has begun, however many periods are over.
JOIN usage_budgets b ON b.workspace_id = $1 AND b.id = (
    SELECT n.id FROM usage_budgets n
     WHERE n.workspace_id = $1 AND n.scope = c.scope AND n.scope_id = c.scope_id AND n.period_start <= (SELECT lk_now())
     ORDER BY n.period_start DESC
     LIMIT 1)

-- name: Lock
SELECT b.id
  FROM (SELECT 'agent' AS scope, CAST($2 AS text) AS scope_id UNION SELECT 'agent', CAST($4 AS text)
         UNION SELECT 'skill', CAST($3 AS text) UNION SELECT 'global', '') c
  @newest
 WHERE b.period_end > (SELECT lk_now());

-- name: LockThese
SELECT $1 || $2 || $3;

-- name: SetPaces
UPDATE usage_budgets SET pace = c.pace
  FROM (SELECT i.value ->> 0 AS id, nullif(i.value ->> 1, 'CONTINUE') AS pace FROM json_each($2) i) c
 WHERE workspace_id = $1 AND usage_budgets.id = c.id;

-- name: LockReserved
SELECT $1 || $2 || $3;

-- name: ChargeSkills
-- Counts the shares in $3 in the newest begun budgets of skills. Has an effect once: it skips usage that has been logged.
UPDATE usage_budgets SET
  consumed = consumed + c.tokens, consumed_micro_usd = consumed_micro_usd + c.micro_usd,
  overdraft = max(0, consumed + c.tokens + reserved - allocated),
  overdraft_micro_usd = max(0, coalesce(consumed_micro_usd + c.micro_usd + reserved_micro_usd - allocated_micro_usd, 0)), updated_at = lk_now()
  FROM (SELECT i.value ->> 0 AS skill, i.value ->> 1 AS tokens, i.value ->> 2 AS micro_usd FROM json_each($3) i) c
 WHERE workspace_id = $1 AND scope = 'skill' AND scope_id = c.skill
   AND period_start = (SELECT max(n.period_start) FROM usage_budgets n
                        WHERE n.workspace_id = $1 AND n.scope = 'skill' AND n.scope_id = c.skill AND n.period_start <= (SELECT lk_now()))
   AND NOT EXISTS (SELECT 1 FROM agent_usage_logs l WHERE l.workspace_id = $1 AND l.id = $2);

-- name: LockPeriods
SELECT lk_now() FROM workspaces WHERE id = $1;

-- name: Usage
-- By one key, or by two of them.
SELECT k.key, k.other, count(*), CAST(sum(k.input_tokens) AS bigint), CAST(sum(k.output_tokens) AS bigint), CAST(sum(k.cache_read_tokens) AS bigint),
       CAST(sum(k.cache_write_tokens) AS bigint), CAST(coalesce(sum(k.cost_micro_usd), 0) AS bigint), count(*) - count(k.cost_micro_usd)
  FROM (SELECT coalesce(CASE $2 WHEN 'agent' THEN l.agent WHEN 'model' THEN l.model WHEN 'surface' THEN l.surface WHEN 'operation' THEN l.operation
                                WHEN 'task' THEN l.task_id
                                WHEN 'day' THEN strftime('%Y-%m-%d', l.created_at / 1000000, 'unixepoch') END, '') AS key,
               coalesce(CASE $3 WHEN 'agent' THEN l.agent WHEN 'model' THEN l.model WHEN 'surface' THEN l.surface WHEN 'operation' THEN l.operation
                                WHEN 'task' THEN l.task_id
                                WHEN 'day' THEN strftime('%Y-%m-%d', l.created_at / 1000000, 'unixepoch') END, '') AS other, l.*
          FROM agent_usage_logs l
         WHERE l.workspace_id = $1 AND l.created_at >= $4 AND l.created_at < $5) k
 GROUP BY k.key, k.other
 ORDER BY CASE WHEN $2 = 'day' THEN k.key WHEN $3 = 'day' THEN k.other END DESC, sum(k.total_tokens) DESC, k.key, k.other
 LIMIT $6;

-- name: UsageBySkill
-- By skill, or by skill and another key: what the view agent_usage_by_skill tells. Calls that asked for the
-- same skills are summed up before they are shared among these. Days are numbers until then, and LIMIT -1 has
-- the skills of a call counted once.
SELECT k.skill_name, k.other, CAST(sum(k.calls) AS bigint), CAST(sum(k.input_tokens) AS bigint), CAST(sum(k.output_tokens) AS bigint), CAST(sum(k.cache_read_tokens) AS bigint),
       CAST(sum(k.cache_write_tokens) AS bigint), CAST(coalesce(sum(k.cost_micro_usd), 0) AS bigint), CAST(sum(k.calls - k.priced) AS bigint)
  FROM (SELECT e.value AS skill_name, CASE WHEN $2 = 'day' THEN strftime('%Y-%m-%d', g.other * 86400, 'unixepoch') ELSE g.other END AS other, g.calls, g.priced,
               g.input_tokens + (e.key = g.n - 1) * g.input_tokens_rest AS input_tokens,
               g.output_tokens + (e.key = g.n - 1) * g.output_tokens_rest AS output_tokens,
               g.cache_read_tokens + (e.key = g.n - 1) * g.cache_read_tokens_rest AS cache_read_tokens,
               g.cache_write_tokens + (e.key = g.n - 1) * g.cache_write_tokens_rest AS cache_write_tokens,
               g.cost_micro_usd + (e.key = g.n - 1) * g.cost_micro_usd_rest AS cost_micro_usd
          FROM (SELECT coalesce(nullif(o.skills, '[]'), json_array(coalesce(o.skill, '(answer)'))) AS names, o.n, o.other, count(*) AS calls, count(o.cost_micro_usd) AS priced,
                 (sum(o.input_tokens) - sum(o.input_tokens % o.n)) / o.n AS input_tokens, sum(o.input_tokens % o.n) AS input_tokens_rest,
                 (sum(o.output_tokens) - sum(o.output_tokens % o.n)) / o.n AS output_tokens, sum(o.output_tokens % o.n) AS output_tokens_rest,
                 (sum(o.cache_read_tokens) - sum(o.cache_read_tokens % o.n)) / o.n AS cache_read_tokens, sum(o.cache_read_tokens % o.n) AS cache_read_tokens_rest,
                 (sum(o.cache_write_tokens) - sum(o.cache_write_tokens % o.n)) / o.n AS cache_write_tokens, sum(o.cache_write_tokens % o.n) AS cache_write_tokens_rest,
                 (sum(o.cost_micro_usd) - sum(o.cost_micro_usd % o.n)) / o.n AS cost_micro_usd, sum(o.cost_micro_usd % o.n) AS cost_micro_usd_rest
                  FROM (SELECT CASE WHEN l.skills IS NULL THEN 1 ELSE coalesce(nullif(json_array_length(l.skills), 0), 1) END AS n,
                       coalesce(CASE $2 WHEN 'agent' THEN l.agent WHEN 'model' THEN l.model WHEN 'surface' THEN l.surface WHEN 'operation' THEN l.operation
                                  WHEN 'task' THEN l.task_id
                                  WHEN 'day' THEN l.created_at / 86400000000 END, '') AS other, l.skills, l.skill,
                       l.input_tokens, l.output_tokens, l.cache_read_tokens, l.cache_write_tokens, l.cost_micro_usd
                          FROM agent_usage_logs l
                         WHERE l.workspace_id = $1 AND l.created_at >= $3 AND l.created_at < $4 LIMIT -1) o
                 GROUP BY o.skills, o.skill, o.n, o.other) g
          JOIN json_each(g.names) e) k
 GROUP BY k.skill_name, k.other
 ORDER BY CASE WHEN $2 = 'day' THEN k.other END DESC, sum(k.input_tokens + k.output_tokens + k.cache_read_tokens + k.cache_write_tokens) DESC,
       k.skill_name, k.other
 LIMIT $5;

-- name: Series
-- What the budget's scope used on each day within the last $3 milliseconds. A skill has its share of each call.
WITH w AS (SELECT lk_plus((SELECT lk_now()), 0 - CAST($3 AS bigint)) AS since)
SELECT strftime('%Y-%m-%d', u.created_at / 1000000, 'unixepoch'), CAST(sum(u.tokens) AS bigint), CAST(coalesce(sum(u.micro_usd), 0) AS bigint)
  FROM (@UsedInScope) u
 GROUP BY 1
 ORDER BY 1;

-- part: scopes
(SELECT i.value ->> 0 AS scope, i.value ->> 1 AS scope_id FROM json_each($2) i)

-- name: LockCovers
-- None while one of the scopes needs its next period.
SELECT b.id
  FROM @scopes c
  @newest
 WHERE b.period_end > (SELECT lk_now())
   AND NOT EXISTS (
     SELECT 1 FROM (SELECT b.period_end, b.created_by
                      FROM @scopes c
                      @newest) o
      WHERE o.period_end <= (SELECT lk_now()) AND o.created_by <> 'lanekeeper');

-- name: Look
-- For each scope the newest budget that has begun, even if its period is over.
SELECT @looked
  FROM @covering c
  @newest
  @held;

-- name: LookCovers
-- As Look, of the scopes in $2.
SELECT @looked
  FROM @scopes c
  @newest
  @held;

-- name: Planned
-- Where the next planned period of a scope begins, for the places of the rows in $2 that it cuts short.
SELECT c.key, min(b.period_start)
  FROM json_each($2) c
  JOIN usage_budgets b ON b.workspace_id = $1 AND b.scope = c.value ->> 0 AND b.scope_id = c.value ->> 1
   AND b.period_start < c.value ->> 5 AND b.period_end > c.value ->> 4
 GROUP BY c.key;

-- name: InsertPeriods
INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, allocated_micro_usd, period_start, period_end, created_by, created_at, updated_at)
SELECT $1, c.value ->> 6, c.value ->> 0, c.value ->> 1, c.value ->> 7, c.value ->> 8, c.value ->> 4, c.value ->> 5, c.value ->> 9, w.at, w.at
  FROM (SELECT lk_now() AS at) w, json_each($2) c;

-- name: CarryOver
-- What open attempts have reserved in earlier periods goes on in the periods in $2.
UPDATE usage_reservations AS r SET budget_id = b.id
  FROM usage_budgets b
  JOIN usage_budgets o ON o.workspace_id = b.workspace_id AND o.scope = b.scope AND o.scope_id = b.scope_id
   AND o.period_start < b.period_start
 WHERE b.workspace_id = $1 AND b.id IN (SELECT i.value FROM json_each($2) i)
   AND r.workspace_id = $1 AND r.budget_id = o.id AND r.task_id IS NOT NULL AND r.settled_at IS NULL;

-- name: Recount
UPDATE usage_budgets SET
  reserved = live.tokens, reserved_micro_usd = live.micro_usd,
  overdraft = max(0, consumed + live.tokens - allocated),
  overdraft_micro_usd = max(0, coalesce(consumed_micro_usd + live.micro_usd - allocated_micro_usd, 0)), updated_at = lk_now()
  FROM (SELECT r.budget_id, sum(r.tokens) AS tokens, sum(r.micro_usd) AS micro_usd
          FROM usage_reservations r
         WHERE r.workspace_id = $1 AND r.budget_id IN (SELECT i.value FROM json_each($2) i)
           AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
         GROUP BY r.budget_id) AS live
 WHERE workspace_id = $1 AND id = live.budget_id;

-- name: HoldAttempts
INSERT INTO usage_reservations (workspace_id, id, budget_id, holder, tokens, micro_usd, created_at, expires_at, task_id, attempt)
SELECT b.workspace_id, c.value ->> 0, b.id, 'task:' || (c.value ->> 2) || ':' || (c.value ->> 3), c.value ->> 4, c.value ->> 5,
       lk_now(), $3, c.value ->> 2, c.value ->> 3
  FROM json_each($2) c
  JOIN usage_budgets b ON b.workspace_id = $1 AND b.id = c.value ->> 1;

-- name: Promise
-- Only budgets that have as much as is reserved.
UPDATE usage_budgets SET
  reserved = live.tokens, reserved_micro_usd = live.micro_usd, overdraft = 0, overdraft_micro_usd = 0, updated_at = lk_now()
  FROM (SELECT r.budget_id, sum(r.tokens) AS tokens, sum(r.micro_usd) AS micro_usd
          FROM usage_reservations r
         WHERE r.workspace_id = $1 AND r.budget_id IN (SELECT i.value FROM json_each($2) i)
           AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
         GROUP BY r.budget_id) AS live
 WHERE workspace_id = $1 AND id = live.budget_id AND consumed + live.tokens <= allocated
   AND (allocated_micro_usd IS NULL OR consumed_micro_usd + live.micro_usd <= allocated_micro_usd);

-- name: Estimated
INSERT INTO usage_estimates (workspace_id, task_id, estimated)
SELECT $1, c.value ->> 0, c.value ->> 1 FROM json_each($2) c WHERE true
ON CONFLICT (workspace_id, task_id) DO UPDATE SET estimated = EXCLUDED.estimated;

-- name: Spend
-- What was used goes from the attempt's reservation to consumption, and beyond it into what is left.
UPDATE usage_budgets SET
  consumed = consumed + $3, consumed_micro_usd = consumed_micro_usd + $4, reserved = live.tokens, reserved_micro_usd = live.micro_usd,
  overdraft = max(0, consumed + $3 + live.tokens - allocated),
  overdraft_micro_usd = max(0, coalesce(consumed_micro_usd + $4 + live.micro_usd - allocated_micro_usd, 0)), updated_at = lk_now()
  FROM (SELECT c.value AS budget_id, coalesce(sum(r.tokens), 0) AS tokens, coalesce(sum(r.micro_usd), 0) AS micro_usd
          FROM json_each($2) c
          LEFT JOIN usage_reservations r
                 ON r.workspace_id = $1 AND r.budget_id = c.value AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
         GROUP BY c.value) AS live
 WHERE workspace_id = $1 AND id = live.budget_id;

-- name: Learn
-- Types of which a task was finished since they were last looked at, by their last 200.
INSERT INTO usage_corrections (workspace_id, task_type, samples, permille, learned_at)
SELECT $1, m.task_type, max(m.n), CAST(avg(m.ratio) + 0.5 AS INTEGER), lk_now()
  FROM (SELECT f.task_type, e.used * 1000.0 / (e.complexity * $2) AS ratio, count(*) OVER (PARTITION BY f.task_type) AS n,
               row_number() OVER (PARTITION BY f.task_type ORDER BY e.used * 1000.0 / (e.complexity * $2)) AS place
          FROM (SELECT DISTINCT task_type FROM usage_estimates
                 WHERE workspace_id = $1 AND finished_at > (SELECT lk_plus(coalesce(max(learned_at), 0), -600000)
                                                              FROM usage_corrections WHERE workspace_id = $1)) f
          JOIN usage_estimates e ON e.workspace_id = $1 AND e.task_id IN (
                 SELECT x.task_id FROM usage_estimates x
                  WHERE x.workspace_id = $1 AND x.task_type = f.task_type AND x.finished_at IS NOT NULL
                  ORDER BY x.finished_at DESC LIMIT 200)) m
 WHERE m.place IN ((m.n + 1) / 2, (m.n + 2) / 2)
 GROUP BY m.task_type
ON CONFLICT (workspace_id, task_type) DO UPDATE SET samples = EXCLUDED.samples, permille = EXCLUDED.permille, learned_at = EXCLUDED.learned_at;

-- name: Names
WITH i AS MATERIALIZED (SELECT value AS id FROM json_each($2))
SELECT p.id, p.name FROM projects p WHERE p.workspace_id = $1 AND p.id IN (SELECT id FROM i)
UNION ALL SELECT m.id, m.name FROM milestones m WHERE m.workspace_id = $1 AND m.id IN (SELECT id FROM i)
UNION ALL SELECT t.id, t.title FROM agent_tasks t WHERE t.workspace_id = $1 AND t.id IN (SELECT id FROM i)
UNION ALL SELECT a.id, a.name FROM agents a WHERE a.workspace_id = $1 AND a.id IN (SELECT id FROM i);
