-- why: Postgres has concurrent writers, which lock the rows that they decide on, in the order of ids; and it has other functions for dates.

-- part: newest
-- Of each scope c the newest budget b that has begun, however many periods are over.
CROSS JOIN LATERAL (
    SELECT n.id FROM usage_budgets n
     WHERE n.workspace_id = $1 AND n.scope = c.scope AND n.scope_id = c.scope_id AND n.period_start <= (SELECT lk_now())
     ORDER BY n.period_start DESC
     LIMIT 1) w
  JOIN usage_budgets b ON b.workspace_id = $1 AND b.id = w.id

-- name: Lock
SELECT b.id
  FROM (SELECT 'agent' AS scope, CAST($2 AS text) AS scope_id UNION SELECT 'agent', CAST($4 AS text)
         UNION SELECT 'skill', CAST($3 AS text) UNION SELECT 'global', '') c
  @newest
 WHERE b.period_end > (SELECT lk_now())
 ORDER BY b.id
   FOR NO KEY UPDATE OF b;

-- name: LockThese
SELECT b.id FROM usage_budgets b WHERE b.workspace_id = $1 AND b.id IN ($2, $3) ORDER BY b.id FOR NO KEY UPDATE;

-- name: SetPaces
WITH locked AS MATERIALIZED (
  SELECT b.id, c.pace
    FROM (SELECT CAST(i ->> 0 AS uuid) AS id, nullif(i ->> 1, 'CONTINUE') AS pace FROM jsonb_array_elements(CAST($2 AS jsonb)) i) c
    JOIN usage_budgets b ON b.workspace_id = $1 AND b.id = c.id
   ORDER BY b.id
     FOR NO KEY UPDATE OF b)
UPDATE usage_budgets SET pace = locked.pace FROM locked WHERE workspace_id = $1 AND usage_budgets.id = locked.id;

-- name: LockReserved
-- The budgets of a reservation, and those of the skills in $3.
SELECT b.id
  FROM usage_budgets b
 WHERE b.workspace_id = $1
   AND b.id = ANY (ARRAY(
     SELECT r.budget_id FROM usage_reservations r WHERE r.workspace_id = $1 AND r.id = $2
      UNION ALL
     SELECT k.id FROM usage_budgets k
      WHERE k.workspace_id = $1 AND k.scope = 'skill' AND k.scope_id IN (SELECT jsonb_array_elements_text(CAST($3 AS jsonb)))
        AND k.period_start <= (SELECT lk_now()) AND k.period_end > (SELECT lk_now())))
 ORDER BY b.id
   FOR NO KEY UPDATE;

-- name: ChargeSkills
-- Counts the shares in $3 in the newest begun budgets of skills. Has an effect once: it skips usage that has been logged.
UPDATE usage_budgets b SET
  consumed = b.consumed + c.tokens, consumed_micro_usd = b.consumed_micro_usd + c.micro_usd,
  overdraft = greatest(0, b.consumed + c.tokens + b.reserved - b.allocated),
  overdraft_micro_usd = greatest(0, coalesce(b.consumed_micro_usd + c.micro_usd + b.reserved_micro_usd - b.allocated_micro_usd, 0)), updated_at = lk_now()
  FROM (SELECT i ->> 0 AS skill, CAST(i ->> 1 AS bigint) AS tokens, CAST(i ->> 2 AS bigint) AS micro_usd
          FROM jsonb_array_elements(CAST($3 AS jsonb)) i) c
 WHERE b.workspace_id = $1 AND b.scope = 'skill' AND b.scope_id = c.skill
   AND b.period_start = (SELECT max(n.period_start) FROM usage_budgets n
                          WHERE n.workspace_id = $1 AND n.scope = 'skill' AND n.scope_id = c.skill AND n.period_start <= (SELECT lk_now()))
   AND NOT EXISTS (SELECT 1 FROM agent_usage_logs l WHERE l.workspace_id = $1 AND l.id = $2);

-- name: LockPeriods
SELECT lk_now() FROM workspaces WHERE id = $1 FOR NO KEY UPDATE;

-- name: Usage
-- By one key, or by two of them.
SELECT k.key, k.other, count(*), CAST(sum(k.input_tokens) AS bigint), CAST(sum(k.output_tokens) AS bigint), CAST(sum(k.cache_read_tokens) AS bigint),
       CAST(sum(k.cache_write_tokens) AS bigint), CAST(coalesce(sum(k.cost_micro_usd), 0) AS bigint), count(*) - count(k.cost_micro_usd)
  FROM (SELECT coalesce(CASE $2 WHEN 'agent' THEN l.agent WHEN 'model' THEN l.model WHEN 'surface' THEN l.surface WHEN 'operation' THEN l.operation
                                WHEN 'task' THEN CAST(l.task_id AS text)
                                WHEN 'day' THEN to_char(l.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') END, '') AS key,
               coalesce(CASE $3 WHEN 'agent' THEN l.agent WHEN 'model' THEN l.model WHEN 'surface' THEN l.surface WHEN 'operation' THEN l.operation
                                WHEN 'task' THEN CAST(l.task_id AS text)
                                WHEN 'day' THEN to_char(l.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') END, '') AS other, l.*
          FROM agent_usage_logs l
         WHERE l.workspace_id = $1 AND l.created_at >= $4 AND l.created_at < $5) k
 GROUP BY k.key, k.other
 ORDER BY CASE WHEN $2 = 'day' THEN k.key WHEN $3 = 'day' THEN k.other END DESC, sum(k.total_tokens) DESC, k.key, k.other
 LIMIT $6;

-- name: UsageBySkill
-- By skill, or by skill and another key: what the view agent_usage_by_skill tells. Calls that asked for the
-- same skills are summed up before they are shared among these, and those of each day by themselves: Postgres
-- would sort all calls to sum them up by a day that it has to compute.
SELECT k.skill_name, k.other, CAST(sum(k.calls) AS bigint), CAST(sum(k.input_tokens) AS bigint), CAST(sum(k.output_tokens) AS bigint), CAST(sum(k.cache_read_tokens) AS bigint),
       CAST(sum(k.cache_write_tokens) AS bigint), CAST(coalesce(sum(k.cost_micro_usd), 0) AS bigint), CAST(sum(k.calls - k.priced) AS bigint)
  FROM (SELECT e.name AS skill_name, coalesce(p.day, g.other, '') AS other, g.calls, g.priced,
               g.input_tokens + CASE WHEN e.place = g.n THEN 1 ELSE 0 END * g.input_tokens_rest AS input_tokens,
               g.output_tokens + CASE WHEN e.place = g.n THEN 1 ELSE 0 END * g.output_tokens_rest AS output_tokens,
               g.cache_read_tokens + CASE WHEN e.place = g.n THEN 1 ELSE 0 END * g.cache_read_tokens_rest AS cache_read_tokens,
               g.cache_write_tokens + CASE WHEN e.place = g.n THEN 1 ELSE 0 END * g.cache_write_tokens_rest AS cache_write_tokens,
               g.cost_micro_usd + CASE WHEN e.place = g.n THEN 1 ELSE 0 END * g.cost_micro_usd_rest AS cost_micro_usd
          FROM (SELECT CAST(NULL AS text) AS day, CAST($3 AS timestamptz) AS since, CAST($4 AS timestamptz) AS until WHERE $2 <> 'day'
                 UNION ALL
                SELECT to_char(d.day, 'YYYY-MM-DD'), greatest(d.day AT TIME ZONE 'UTC', $3), least((d.day + interval '1 day') AT TIME ZONE 'UTC', $4)
                  FROM generate_series((SELECT date_trunc('day', min(created_at) AT TIME ZONE 'UTC') FROM agent_usage_logs WHERE workspace_id = $1 AND created_at >= $3 AND created_at < $4),
                                       (SELECT max(created_at) AT TIME ZONE 'UTC' FROM agent_usage_logs WHERE workspace_id = $1 AND created_at >= $3 AND created_at < $4),
                                       interval '1 day') d (day)
                 WHERE $2 = 'day') p
          CROSS JOIN LATERAL (
                SELECT coalesce(nullif(o.skills, '[]'), jsonb_build_array(coalesce(o.skill, '(answer)'))) AS names, o.n, o.other, count(*) AS calls, count(o.cost_micro_usd) AS priced,
                       sum(o.input_tokens / o.n) AS input_tokens, sum(o.input_tokens % o.n) AS input_tokens_rest,
                       sum(o.output_tokens / o.n) AS output_tokens, sum(o.output_tokens % o.n) AS output_tokens_rest,
                       sum(o.cache_read_tokens / o.n) AS cache_read_tokens, sum(o.cache_read_tokens % o.n) AS cache_read_tokens_rest,
                       sum(o.cache_write_tokens / o.n) AS cache_write_tokens, sum(o.cache_write_tokens % o.n) AS cache_write_tokens_rest,
                       sum(o.cost_micro_usd / o.n) AS cost_micro_usd, sum(o.cost_micro_usd % o.n) AS cost_micro_usd_rest
                  FROM (SELECT coalesce(nullif(jsonb_array_length(l.skills), 0), 1) AS n,
                               CASE $2 WHEN 'agent' THEN l.agent WHEN 'model' THEN l.model WHEN 'surface' THEN l.surface WHEN 'operation' THEN l.operation
                                       WHEN 'task' THEN CAST(l.task_id AS text) END AS other, l.*
                          FROM agent_usage_logs l
                         WHERE l.workspace_id = $1 AND l.created_at >= p.since AND l.created_at < p.until) o
                 GROUP BY o.skills, o.skill, o.n, o.other) g
          CROSS JOIN LATERAL jsonb_array_elements_text(g.names) WITH ORDINALITY AS e (name, place)) k
 GROUP BY k.skill_name, k.other
 ORDER BY CASE WHEN $2 = 'day' THEN k.other END DESC, sum(k.input_tokens + k.output_tokens + k.cache_read_tokens + k.cache_write_tokens) DESC,
       k.skill_name, k.other
 LIMIT $5;

-- name: Series
-- What the budget's scope used on each day within the last $3 milliseconds. A skill has its share of each call.
WITH w AS (SELECT lk_plus((SELECT lk_now()), 0 - CAST($3 AS bigint)) AS since)
SELECT to_char(u.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), CAST(sum(u.tokens) AS bigint), CAST(coalesce(sum(u.micro_usd), 0) AS bigint)
  FROM (@UsedInScope) u
 GROUP BY 1
 ORDER BY 1;

-- part: scopes
-- The scopes in $2. Row-level security keeps Postgres from an index where a column is compared with what it takes out of
-- JSON in the same condition, so the list, whose limit says how long it is, is read by itself; so it is below.
(SELECT i ->> 0 AS scope, i ->> 1 AS scope_id FROM jsonb_array_elements(CAST($2 AS jsonb)) i
          LIMIT jsonb_array_length(CAST($2 AS jsonb)))

-- name: LockCovers
-- None while one of the scopes needs its next period: who makes that waits for the workspace's row, and must
-- not hold a budget that the present holder of that row may want.
SELECT b.id
  FROM @scopes c
  @newest
 WHERE b.period_end > (SELECT lk_now())
   AND NOT EXISTS (
     SELECT 1 FROM (SELECT b.period_end, b.created_by
                      FROM @scopes c
                      @newest) o
      WHERE o.period_end <= (SELECT lk_now()) AND o.created_by <> 'lanekeeper')
 ORDER BY b.id
   FOR NO KEY UPDATE OF b;

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
SELECT CAST(c.place - 1 AS integer), min(b.period_start)
  FROM (SELECT i.place, i.row ->> 0 AS scope, i.row ->> 1 AS scope_id, CAST(i.row ->> 2 AS timestamptz) AS since,
               CAST(i.row ->> 3 AS timestamptz) AS until
          FROM jsonb_array_elements(CAST($2 AS jsonb)) WITH ORDINALITY i (row, place)
         LIMIT jsonb_array_length(CAST($2 AS jsonb))) c
  JOIN usage_budgets b ON b.scope = c.scope AND b.scope_id = c.scope_id AND b.period_start < c.until AND b.period_end > c.since
 WHERE b.workspace_id = $1
 GROUP BY c.place;

-- name: InsertPeriods
INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, allocated_micro_usd, period_start, period_end, created_by, created_at, updated_at)
SELECT CAST($1 AS uuid), CAST(c ->> 6 AS uuid), c ->> 0, c ->> 1, CAST(c ->> 7 AS bigint), CAST(c ->> 8 AS bigint), CAST(c ->> 2 AS timestamptz),
       CAST(c ->> 3 AS timestamptz), c ->> 9, w.at, w.at
  FROM (SELECT lk_now() AS at) w, jsonb_array_elements(CAST($2 AS jsonb)) c;

-- name: CarryOver
-- What open attempts have reserved in earlier periods goes on in the periods in $2.
UPDATE usage_reservations r SET budget_id = b.id
  FROM usage_budgets b
  JOIN usage_budgets o ON o.workspace_id = b.workspace_id AND o.scope = b.scope AND o.scope_id = b.scope_id
   AND o.period_start < b.period_start
 WHERE b.workspace_id = $1 AND b.id IN (SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i)
   AND r.workspace_id = $1 AND r.budget_id = o.id AND r.task_id IS NOT NULL AND r.settled_at IS NULL;

-- name: Recount
UPDATE usage_budgets SET
  reserved = live.tokens, reserved_micro_usd = live.micro_usd,
  overdraft = greatest(0, consumed + live.tokens - allocated),
  overdraft_micro_usd = greatest(0, coalesce(consumed_micro_usd + live.micro_usd - allocated_micro_usd, 0)), updated_at = lk_now()
  FROM (SELECT r.budget_id, CAST(sum(r.tokens) AS bigint) AS tokens, CAST(sum(r.micro_usd) AS bigint) AS micro_usd
          FROM usage_reservations r
         WHERE r.workspace_id = $1 AND r.budget_id IN (SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i)
           AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
         GROUP BY r.budget_id) AS live
 WHERE workspace_id = $1 AND id = live.budget_id;

-- name: HoldAttempts
INSERT INTO usage_reservations (workspace_id, id, budget_id, holder, tokens, micro_usd, created_at, expires_at, task_id, attempt)
SELECT b.workspace_id, CAST(c.row ->> 0 AS uuid), b.id, 'task:' || (c.row ->> 2) || ':' || (c.row ->> 3), CAST(c.row ->> 4 AS bigint),
       CAST(c.row ->> 5 AS bigint), lk_now(), $3, CAST(c.row ->> 2 AS uuid), CAST(c.row ->> 3 AS integer)
  FROM (SELECT i.row, CAST(i.row ->> 1 AS uuid) AS budget FROM jsonb_array_elements(CAST($2 AS jsonb)) i (row)
         LIMIT jsonb_array_length(CAST($2 AS jsonb))) c
  JOIN usage_budgets b ON b.workspace_id = $1 AND b.id = c.budget;

-- name: Promise
-- Only budgets that have as much as is reserved.
UPDATE usage_budgets SET
  reserved = live.tokens, reserved_micro_usd = live.micro_usd, overdraft = 0, overdraft_micro_usd = 0, updated_at = lk_now()
  FROM (SELECT r.budget_id, CAST(sum(r.tokens) AS bigint) AS tokens, CAST(sum(r.micro_usd) AS bigint) AS micro_usd
          FROM usage_reservations r
         WHERE r.workspace_id = $1 AND r.budget_id IN (SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i)
           AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
         GROUP BY r.budget_id) AS live
 WHERE workspace_id = $1 AND id = live.budget_id AND consumed + live.tokens <= allocated
   AND (allocated_micro_usd IS NULL OR consumed_micro_usd + live.micro_usd <= allocated_micro_usd);

-- name: Estimated
INSERT INTO usage_estimates (workspace_id, task_id, estimated)
SELECT CAST($1 AS uuid), CAST(c ->> 0 AS uuid), CAST(c ->> 1 AS bigint) FROM jsonb_array_elements(CAST($2 AS jsonb)) c
ON CONFLICT (workspace_id, task_id) DO UPDATE SET estimated = EXCLUDED.estimated;

-- name: Spend
-- What was used goes from the attempt's reservation to consumption, and beyond it into what is left.
UPDATE usage_budgets SET
  consumed = consumed + $3, consumed_micro_usd = consumed_micro_usd + $4, reserved = live.tokens, reserved_micro_usd = live.micro_usd,
  overdraft = greatest(0, consumed + $3 + live.tokens - allocated),
  overdraft_micro_usd = greatest(0, coalesce(consumed_micro_usd + $4 + live.micro_usd - allocated_micro_usd, 0)), updated_at = lk_now()
  FROM (SELECT c.id, CAST(coalesce(sum(r.tokens), 0) AS bigint) AS tokens, CAST(coalesce(sum(r.micro_usd), 0) AS bigint) AS micro_usd
          FROM (SELECT CAST(i AS uuid) AS id FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i) c
          LEFT JOIN usage_reservations r
                 ON r.workspace_id = $1 AND r.budget_id = c.id AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
         GROUP BY c.id) AS live
 WHERE workspace_id = $1 AND usage_budgets.id = live.id;

-- name: Learn
-- Types of which a task was finished since they were last looked at, and until now, by their last 200: of times without an
-- end Postgres expects a third of the table, and reads all of it.
INSERT INTO usage_corrections (workspace_id, task_type, samples, permille, learned_at)
SELECT CAST($1 AS uuid), m.task_type, max(m.n), CAST(avg(m.ratio) AS bigint), lk_now()
  FROM (SELECT f.task_type, e.ratio, row_number() OVER (PARTITION BY f.task_type ORDER BY e.ratio) AS place,
               count(*) OVER (PARTITION BY f.task_type) AS n
          FROM (SELECT DISTINCT task_type FROM usage_estimates
                 WHERE workspace_id = $1 AND finished_at > (SELECT lk_plus(coalesce(max(learned_at), '2000-01-01'), -600000)
                                                              FROM usage_corrections WHERE workspace_id = $1)
                   AND finished_at <= (SELECT lk_now())) f
         CROSS JOIN LATERAL (SELECT e.used * 1000.0 / (e.complexity * CAST($2 AS bigint)) AS ratio
                               FROM usage_estimates e
                              WHERE e.workspace_id = $1 AND e.task_type = f.task_type AND e.finished_at IS NOT NULL
                              ORDER BY e.finished_at DESC LIMIT 200) e) m
 WHERE m.place IN ((m.n + 1) / 2, (m.n + 2) / 2)
 GROUP BY m.task_type
 ORDER BY m.task_type
ON CONFLICT (workspace_id, task_type) DO UPDATE SET samples = EXCLUDED.samples, permille = EXCLUDED.permille, learned_at = EXCLUDED.learned_at;

-- name: Names
SELECT CAST(n.id AS text), n.name
  FROM (SELECT CAST(i AS uuid) AS id FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i) i
 CROSS JOIN LATERAL (
   SELECT p.id, p.name FROM projects p WHERE p.workspace_id = $1 AND p.id = i.id
   UNION ALL SELECT m.id, m.name FROM milestones m WHERE m.workspace_id = $1 AND m.id = i.id
   UNION ALL SELECT t.id, t.title FROM agent_tasks t WHERE t.workspace_id = $1 AND t.id = i.id
   UNION ALL SELECT a.id, a.name FROM agents a WHERE a.workspace_id = $1 AND a.id = i.id) n;
