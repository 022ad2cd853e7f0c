-- part: UsedInScope
-- Since a time, and until now: of times without an end Postgres expects a third of the table, and reads all of it.
SELECT l.created_at, l.total_tokens AS tokens, l.cost_micro_usd AS micro_usd
         FROM usage_budgets b
         JOIN agent_usage_logs l ON l.workspace_id = b.workspace_id AND l.created_at >= (SELECT since FROM w)
          AND l.created_at <= (SELECT lk_now())
        WHERE b.workspace_id = $1 AND b.id = $2
          AND CASE b.scope
              WHEN 'global' THEN ''
              WHEN 'project' THEN CAST(l.project_id AS text)
              WHEN 'milestone' THEN CAST(l.milestone_id AS text)
              WHEN 'task' THEN CAST(l.task_id AS text)
              WHEN 'agent' THEN CASE WHEN b.scope_id = l.agent || ':' || l.surface THEN b.scope_id ELSE l.agent END
              END = b.scope_id
        UNION ALL
       SELECT s.created_at, s.input_tokens + s.output_tokens + s.cache_read_tokens + s.cache_write_tokens, s.cost_micro_usd
         FROM usage_budgets b
         JOIN agent_usage_by_skill s ON s.workspace_id = b.workspace_id AND s.skill_name = b.scope_id AND s.created_at >= (SELECT since FROM w)
          AND s.created_at <= (SELECT lk_now())
        WHERE b.workspace_id = $1 AND b.id = $2 AND b.scope = 'skill';

-- part: behind
-- Whether an attempt still has its reservation in a period before: somebody else than an attempt has begun this one. Who
-- begins a period takes all reservations along, so they are in the last one that somebody has begun, or in those that were
-- planned since.
EXISTS (SELECT 1 FROM usage_reservations l
               WHERE l.workspace_id = $1 AND l.settled_at IS NULL AND l.task_id IS NOT NULL
                 AND l.budget_id IN (SELECT p.id FROM usage_budgets p
                                      WHERE p.workspace_id = $1 AND p.scope = b.scope AND p.scope_id = b.scope_id
                                        AND p.period_start < b.period_start
                                        AND p.period_start >= coalesce((SELECT max(q.period_start) FROM usage_budgets q
                                                                         WHERE q.workspace_id = $1 AND q.scope = b.scope AND q.scope_id = b.scope_id
                                                                           AND q.period_start < b.period_start AND q.created_at >= q.period_start),
                                                                       p.period_start)))

-- part: looked
b.id, b.scope, b.scope_id, b.allocated, b.consumed, CAST(coalesce(sum(r.tokens), 0) AS bigint),
       b.allocated_micro_usd, b.consumed_micro_usd, CAST(coalesce(sum(r.micro_usd), 0) AS bigint),
       b.period_start, b.period_end, b.version, coalesce(b.pace, 'CONTINUE'), b.created_by, b.created_at, b.updated_at, max(r.expires_at), (SELECT lk_now()),
       @behind

-- part: held
LEFT JOIN usage_reservations r
         ON r.workspace_id = b.workspace_id AND r.budget_id = b.id AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
 GROUP BY b.workspace_id, b.id
 ORDER BY b.id

-- part: covering
-- The scopes of the agent, of the agent on the surface, of all skills and of the workspace.
(SELECT 'agent' AS scope, CAST($2 AS text) AS scope_id UNION SELECT 'agent', CAST($3 AS text) UNION SELECT 'global', ''
         UNION SELECT k.scope, k.scope_id FROM usage_budgets k WHERE k.workspace_id = $1 AND k.scope = 'skill')

-- name: Get
SELECT b.id, b.scope, b.scope_id, b.allocated, b.consumed, CAST(coalesce(sum(r.tokens), 0) AS bigint),
       b.allocated_micro_usd, b.consumed_micro_usd, CAST(coalesce(sum(r.micro_usd), 0) AS bigint),
       b.period_start, b.period_end, b.version, coalesce(b.pace, 'CONTINUE'), b.created_by, b.created_at, b.updated_at, max(r.expires_at), (SELECT lk_now()), false
  FROM usage_budgets b
  LEFT JOIN usage_reservations r
         ON r.workspace_id = b.workspace_id AND r.budget_id = b.id AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
 WHERE b.workspace_id = $1 AND b.id IN ($2, $3)
 GROUP BY b.workspace_id, b.id;

-- name: List
SELECT b.id, b.scope, b.scope_id, b.allocated, b.consumed, CAST(coalesce(sum(r.tokens), 0) AS bigint),
       b.allocated_micro_usd, b.consumed_micro_usd, CAST(coalesce(sum(r.micro_usd), 0) AS bigint),
       b.period_start, b.period_end, b.version, coalesce(b.pace, 'CONTINUE'), b.created_by, b.created_at, b.updated_at, max(r.expires_at), (SELECT lk_now()), false
  FROM usage_budgets b
  LEFT JOIN usage_reservations r
         ON r.workspace_id = b.workspace_id AND r.budget_id = b.id AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
 WHERE b.workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR b.scope = $2)
   AND (CAST($3 AS text) IS NULL OR b.scope_id = $3)
   AND (CAST($4 AS boolean) IS NULL
     OR $4 = (b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now())))
   AND b.id < $5
 GROUP BY b.workspace_id, b.id
 ORDER BY b.id DESC
 LIMIT $6;

-- name: Hold
INSERT INTO usage_reservations (workspace_id, id, budget_id, holder, tokens, micro_usd, created_at, expires_at)
SELECT b.workspace_id, $2, b.id, $3, $4, $5, lk_now(), lk_plus(lk_now(), $6)
  FROM usage_budgets b
 WHERE b.workspace_id = $1 AND b.id IN ($7, $8, $9, $10);

-- name: Count
-- A reservation never overdraws: a constraint of the table refuses it.
UPDATE usage_budgets SET
  reserved = live.tokens, reserved_micro_usd = live.micro_usd, overdraft = 0, overdraft_micro_usd = 0, updated_at = lk_now()
  FROM (SELECT r.budget_id, CAST(sum(r.tokens) AS bigint) AS tokens, CAST(sum(r.micro_usd) AS bigint) AS micro_usd
          FROM usage_reservations r
         WHERE r.workspace_id = $1 AND r.budget_id IN ($2, $3, $4, $5) AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
         GROUP BY r.budget_id) AS live
 WHERE workspace_id = $1 AND id = live.budget_id;

-- name: Charge
-- Has an effect once: it skips a reservation whose usage has been logged.
UPDATE usage_budgets SET
  consumed = consumed + $3, consumed_micro_usd = consumed_micro_usd + $4, reserved = live.tokens, reserved_micro_usd = live.micro_usd,
  overdraft = CASE WHEN consumed + $3 + live.tokens > allocated THEN consumed + $3 + live.tokens - allocated ELSE 0 END,
  overdraft_micro_usd = CASE WHEN consumed_micro_usd + $4 + live.micro_usd > allocated_micro_usd
                             THEN consumed_micro_usd + $4 + live.micro_usd - allocated_micro_usd ELSE 0 END,
  updated_at = lk_now()
  FROM (SELECT m.budget_id, CAST(coalesce(sum(r.tokens), 0) AS bigint) AS tokens, CAST(coalesce(sum(r.micro_usd), 0) AS bigint) AS micro_usd
          FROM usage_reservations m
          LEFT JOIN usage_reservations r
                 ON r.workspace_id = m.workspace_id AND r.budget_id = m.budget_id AND r.settled_at IS NULL AND r.expires_at > (SELECT lk_now())
                AND r.id <> m.id
         WHERE m.workspace_id = $1 AND m.id = $2
         GROUP BY m.budget_id) AS live
 WHERE workspace_id = $1 AND id = live.budget_id
   AND NOT EXISTS (SELECT 1 FROM agent_usage_logs l WHERE l.workspace_id = $1 AND l.id = $2);

-- name: End
UPDATE usage_reservations SET settled_at = lk_now() WHERE workspace_id = $1 AND id = $2 AND settled_at IS NULL;

-- name: Log
INSERT INTO agent_usage_logs (workspace_id, id, execution_id, trace_id, session_id, task_id, agent, skill, surface, operation, model,
  input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_micro_usd, skills, attempt, milestone_id, project_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, lk_now())
ON CONFLICT (workspace_id, id) DO NOTHING;

-- name: Sweep
-- Reservations that were settled or abandoned at least $2 milliseconds ago.
DELETE FROM usage_reservations WHERE workspace_id = $1 AND (id, budget_id) IN (
  SELECT id, budget_id FROM usage_reservations WHERE workspace_id = $1 AND lk_plus(expires_at, $2) <= (SELECT lk_now()) LIMIT $3);

-- name: Overlap
SELECT id, period_start, period_end
  FROM usage_budgets
 WHERE workspace_id = $1 AND scope = $2 AND scope_id = $3 AND period_start < $5 AND period_end > $4
 ORDER BY period_start
 LIMIT 1;

-- name: Insert
INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, allocated_micro_usd, period_start, period_end, created_by, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, n.at, n.at
  FROM (SELECT lk_now() AS at) n;

-- name: Allocate
UPDATE usage_budgets SET
  allocated = $3, overdraft = CASE WHEN consumed + reserved > $3 THEN consumed + reserved - $3 ELSE 0 END,
  allocated_micro_usd = coalesce(CAST($4 AS bigint), allocated_micro_usd),
  overdraft_micro_usd = CASE WHEN consumed_micro_usd + reserved_micro_usd > coalesce(CAST($4 AS bigint), allocated_micro_usd)
                             THEN consumed_micro_usd + reserved_micro_usd - coalesce(CAST($4 AS bigint), allocated_micro_usd) ELSE 0 END,
  pace = CASE WHEN $3 > allocated OR $4 > allocated_micro_usd THEN NULL ELSE pace END, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2;

-- name: AllocateDays
-- Of the budgets that are made for each day, and whose day is now. What is consumed stays allocated.
UPDATE usage_budgets SET
  allocated = CASE WHEN $2 > consumed THEN $2 ELSE consumed END,
  overdraft = CASE WHEN $2 > consumed + reserved THEN 0 WHEN $2 > consumed THEN consumed + reserved - $2 ELSE reserved END,
  allocated_micro_usd = CASE WHEN CAST($3 AS bigint) > consumed_micro_usd THEN $3 WHEN CAST($3 AS bigint) IS NOT NULL THEN consumed_micro_usd END,
  overdraft_micro_usd = CASE WHEN CAST($3 AS bigint) IS NULL OR $3 > consumed_micro_usd + reserved_micro_usd THEN 0
                             WHEN $3 > consumed_micro_usd THEN consumed_micro_usd + reserved_micro_usd - $3 ELSE reserved_micro_usd END,
  version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND created_by = 'lanekeeper' AND scope = 'agent' AND period_start <= (SELECT lk_now()) AND period_end > (SELECT lk_now());

-- name: Burn
-- The tokens and the money used in the budget's scope in the last $3 milliseconds. A skill has its share of each call.
WITH w AS (SELECT lk_plus((SELECT lk_now()), 0 - CAST($3 AS bigint)) AS since)
SELECT CAST(coalesce(sum(u.tokens), 0) AS bigint), CAST(coalesce(sum(u.micro_usd), 0) AS bigint)
  FROM (@UsedInScope) u;

-- name: Prices
-- global: a model costs the same everywhere
SELECT p.model, p.input, p.output, p.cache_read, p.cache_write
  FROM model_prices p
 WHERE p.valid_from = (SELECT max(n.valid_from) FROM model_prices n WHERE n.model = p.model AND n.valid_from <= (SELECT lk_now()));

-- name: UseReservation
UPDATE usage_reservations SET
  tokens = CASE WHEN tokens > $4 THEN tokens - $4 ELSE 0 END, micro_usd = CASE WHEN micro_usd > $5 THEN micro_usd - $5 ELSE 0 END
 WHERE workspace_id = $1 AND task_id = $2 AND attempt = $3 AND settled_at IS NULL;

-- name: HeldByAttempt
SELECT budget_id, tokens, micro_usd FROM usage_reservations
 WHERE workspace_id = $1 AND task_id = $2 AND attempt = $3 AND settled_at IS NULL;

-- name: RaiseAttempt
UPDATE usage_reservations SET
  tokens = CASE WHEN tokens < $5 THEN $5 ELSE tokens END, micro_usd = CASE WHEN micro_usd < $6 THEN $6 ELSE micro_usd END
 WHERE workspace_id = $1 AND task_id = $2 AND attempt = $3 AND budget_id = $4 AND settled_at IS NULL;

-- name: Corrections
SELECT c.task_type, c.samples, c.permille FROM usage_corrections c WHERE c.workspace_id = $1 AND c.samples >= $2;

-- name: Exhausted
-- Tasks that are worked on although a budget is spent.
SELECT t.id, t.attempt, t.agent_id, b.scope, b.scope_id, b.period_end
  FROM usage_budgets b
  JOIN agent_tasks t ON t.workspace_id = b.workspace_id AND t.status IN ('ASSIGNED', 'RUNNING')
   AND CASE b.scope WHEN 'global' THEN '' WHEN 'project' THEN CAST(t.project_id AS text) WHEN 'milestone' THEN CAST(t.milestone_id AS text)
       WHEN 'task' THEN CAST(t.id AS text) WHEN 'agent' THEN CAST(t.agent_id AS text) END = b.scope_id
 WHERE b.workspace_id = $1 AND b.threshold = 100 AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now())
 ORDER BY t.id, b.period_end DESC, b.id
 LIMIT $2;

-- name: Resumable
-- Tasks that a budget paused, and that no budget holds up any more.
SELECT t.id
  FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.status = 'PAUSED' AND t.status_reason = $2
   AND NOT EXISTS (
     SELECT 1 FROM usage_budgets b
      WHERE b.workspace_id = $1 AND b.threshold = 100 AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now())
        AND CASE b.scope WHEN 'global' THEN '' WHEN 'project' THEN CAST(t.project_id AS text) WHEN 'milestone' THEN CAST(t.milestone_id AS text)
            WHEN 'task' THEN CAST(t.id AS text) END = b.scope_id)
 ORDER BY t.id
 LIMIT $3;

-- name: Rates
-- People's budgets of the workspace and of the agents in $2 and $3 whose period is now, with what their scope
-- used in the last $4 milliseconds.
SELECT b.allocated, b.consumed, b.allocated_micro_usd, b.consumed_micro_usd, b.period_end, (SELECT lk_now()),
       CAST(coalesce(sum(l.total_tokens), 0) AS bigint), CAST(coalesce(sum(l.cost_micro_usd), 0) AS bigint)
  FROM usage_budgets b
  LEFT JOIN agent_usage_logs l ON l.workspace_id = b.workspace_id AND l.created_at > lk_plus((SELECT lk_now()), 0 - CAST($4 AS bigint))
   AND (b.scope = 'global' OR b.scope_id IN (l.agent, l.agent || ':' || l.surface))
 WHERE b.workspace_id = $1 AND (b.scope = 'global' OR b.scope = 'agent' AND b.scope_id IN ($2, $3)) AND b.created_by <> 'lanekeeper'
   AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now())
 GROUP BY b.workspace_id, b.id;

-- part: usedLately
-- What was used in the last $2 milliseconds, by what budgets cover.
  SELECT l.agent, l.surface, l.project_id, l.milestone_id, CAST(NULL AS text) AS skill, sum(l.total_tokens) AS tokens, sum(l.cost_micro_usd) AS micro_usd
    FROM agent_usage_logs l
   WHERE l.workspace_id = $1 AND l.created_at > lk_plus((SELECT lk_now()), 0 - CAST($2 AS bigint))
   GROUP BY l.agent, l.surface, l.project_id, l.milestone_id
   UNION ALL
  SELECT NULL, NULL, NULL, NULL, s.skill_name, sum(s.input_tokens + s.output_tokens + s.cache_read_tokens + s.cache_write_tokens), sum(s.cost_micro_usd)
    FROM agent_usage_by_skill s
   WHERE s.workspace_id = $1 AND s.created_at > lk_plus((SELECT lk_now()), 0 - CAST($2 AS bigint))
     AND EXISTS (SELECT 1 FROM usage_budgets k WHERE k.workspace_id = $1 AND k.scope = 'skill')
   GROUP BY s.skill_name

-- part: projected
-- People's budgets whose period is now, except those of single tasks, with what their scope used of that.
b.id, b.scope, b.scope_id, b.allocated, b.consumed, b.allocated_micro_usd, b.consumed_micro_usd, b.period_start, b.period_end, coalesce(b.pace, 'CONTINUE'),
       (SELECT lk_now()), CAST(coalesce(sum(u.tokens), 0) AS bigint), CAST(coalesce(sum(u.micro_usd), 0) AS bigint)
  FROM usage_budgets b
  LEFT JOIN used u
         ON (b.scope = 'skill') = (u.skill IS NOT NULL)
        AND CASE b.scope
            WHEN 'global' THEN ''
            WHEN 'project' THEN CAST(u.project_id AS text)
            WHEN 'milestone' THEN CAST(u.milestone_id AS text)
            WHEN 'agent' THEN CASE WHEN b.scope_id = u.agent || ':' || u.surface THEN b.scope_id ELSE u.agent END
            WHEN 'skill' THEN u.skill
            END = b.scope_id
 WHERE b.workspace_id = $1 AND b.scope IN ('global', 'project', 'milestone', 'agent', 'skill') AND b.created_by <> 'lanekeeper'
   AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now())
 GROUP BY b.workspace_id, b.id

-- name: Advice
-- The global budgets first, then the latest made.
WITH used AS (@usedLately)
SELECT @projected
 ORDER BY CASE b.scope WHEN 'global' THEN 0 ELSE 1 END, b.id DESC
 LIMIT $3;

-- name: Paces
-- Budgets that tasks are held back by, or may have to be.
WITH used AS (@usedLately)
SELECT @projected
HAVING b.scope <> 'skill' AND (b.pace IS NOT NULL OR b.consumed > 0 OR b.consumed_micro_usd > 0 OR count(u.tokens) > 0)
 ORDER BY b.id;

-- name: Tiers
-- What the workspace chose for its tiers, and what is offered for them, the cheapest first.
SELECT t.tier, t.model, true, 0
  FROM model_tiers t
 WHERE t.workspace_id = $1
 UNION ALL
SELECT p.tier, p.model, false, p.output
  FROM model_prices p
 WHERE p.tier IS NOT NULL
   AND p.valid_from = (SELECT max(n.valid_from) FROM model_prices n WHERE n.model = p.model AND n.valid_from <= (SELECT lk_now()))
 ORDER BY 4, 2;

-- name: ChooseTier
INSERT INTO model_tiers (workspace_id, tier, model, updated_at) VALUES ($1, $2, $3, lk_now())
ON CONFLICT (workspace_id, tier) DO UPDATE SET model = EXCLUDED.model, updated_at = EXCLUDED.updated_at;

-- name: TaskUsed
-- All attempts of a task.
SELECT CAST(coalesce(sum(l.total_tokens), 0) AS bigint) FROM agent_usage_logs l WHERE l.workspace_id = $1 AND l.task_id = $2;

-- name: Past
-- Tasks that were completed, the latest first.
SELECT e.task_id, e.task_type, e.complexity, e.estimated, e.used, e.finished_at
  FROM usage_estimates e
 WHERE e.workspace_id = $1 AND e.finished_at IS NOT NULL
   AND (CAST($2 AS text) IS NULL OR e.task_type = $2)
   AND (e.finished_at, e.task_id) < ($3, $4)
 ORDER BY e.finished_at DESC, e.task_id DESC
 LIMIT $5;

-- name: TaskModels
-- What tasks have used of each model.
SELECT l.model, count(*), CAST(sum(l.input_tokens) AS bigint), CAST(sum(l.output_tokens) AS bigint), CAST(sum(l.cache_read_tokens) AS bigint),
       CAST(sum(l.cache_write_tokens) AS bigint)
  FROM agent_usage_logs l
 WHERE l.workspace_id = $1 AND l.task_id IS NOT NULL AND l.created_at >= $2 AND l.created_at < $3
 GROUP BY l.model;

-- name: Lately
-- What was used since $2, and when the latest of it was.
SELECT CAST(coalesce(sum(l.total_tokens), 0) AS bigint), CAST(coalesce(sum(l.cost_micro_usd), 0) AS bigint), max(l.created_at)
  FROM agent_usage_logs l
 WHERE l.workspace_id = $1 AND l.created_at >= $2;

-- name: SpentSkills
-- The skills whose budget is spent, until when.
SELECT b.scope_id, b.period_end
  FROM usage_budgets b
 WHERE b.workspace_id = $1 AND b.threshold = 100 AND b.scope = 'skill' AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now());

-- name: Any
SELECT EXISTS (SELECT 1 FROM usage_budgets WHERE workspace_id = $1);

-- name: Logged
SELECT EXISTS (SELECT 1 FROM agent_usage_logs WHERE workspace_id = $1 AND id = $2);
