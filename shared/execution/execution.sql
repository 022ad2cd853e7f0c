-- part: Listed
-- With $12, only the first execution of each trace: a task that a turn created is worked on in its trace, without a parent.
SELECT id, agent, surface, trace_id, parent_id, subject, slot, status, attempt, cuts, parks, input, result, error, prompt_tokens, completion_tokens, cost_usd,
       persona, persona_version, created_at, updated_at, ended_at
  FROM executions
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR agent = $2)
   AND (CAST($3 AS text) IS NULL OR surface = $3)
   AND (CAST($4 AS text) IS NULL OR status = $4)
   AND (CAST($5 AS text) IS NULL OR trace_id = $5)
   AND (CAST($6 AS text) IS NULL OR subject = $6)
   AND (NOT $12 OR parent_id IS NULL
     AND NOT EXISTS (SELECT 1 FROM executions f
                      WHERE f.workspace_id = $1 AND f.trace_id = executions.trace_id AND f.parent_id IS NULL
                        AND (f.created_at, f.id) < (executions.created_at, executions.id)))
   AND created_at >= $7 AND created_at < $8
   AND (created_at, id) < ($9, $10)
 ORDER BY created_at DESC, id DESC
 LIMIT $11;

-- name: Start
-- The execution keeps the version of its persona that $12 names, or else the present one.
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, parent_id, subject, slot, status, cuts, input, persona, persona_version, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, 'running', $9, $10, CAST($11 AS text),
       CASE WHEN CAST($11 AS text) IS NOT NULL
            THEN coalesce(CAST($12 AS integer), (SELECT max(p.version) FROM personas p WHERE p.workspace_id = $1 AND p.name = CAST($11 AS text)), 0) END,
       lk_now(), lk_now();

-- name: Record
-- It began when its lane was taken.
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, slot, status, input, result, created_at, updated_at, ended_at)
SELECT $1, $2, $3, $4, $5, $6, $7, 'completed', '{}', $8, l.locked_at, n.now, n.now
  FROM (SELECT lk_now() AS now) AS n
  JOIN agent_locks l ON l.workspace_id = $1 AND l.lane = $6;

-- name: Resume
-- To wait for a person is no attempt. Only what was running has been cut off.
UPDATE executions SET status = 'running', attempt = attempt + CASE status WHEN 'waiting' THEN 0 ELSE 1 END,
       cuts = cuts + CASE status WHEN 'running' THEN 1 ELSE 0 END,
       resumed_seq = (SELECT coalesce(max(seq), 0) FROM execution_steps WHERE workspace_id = $1 AND execution_id = $2), updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status IN ('running', 'waiting', 'parked')
RETURNING attempt, cuts;

-- name: Spend
UPDATE executions SET prompt_tokens = prompt_tokens + $3, completion_tokens = completion_tokens + $4, cost_usd = cost_usd + $5, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2;

-- name: Leave
-- An attempt that appended to the journal made progress: the counts of cuts and of parks begin anew.
UPDATE executions SET status = $3, result = $4, error = $5, updated_at = lk_now(),
       cuts = CASE WHEN $3 IN ('waiting', 'parked') AND journal.last > resumed_seq THEN 0 ELSE cuts END,
       parks = CASE WHEN journal.last > resumed_seq THEN 0 WHEN $3 = 'parked' THEN parks + 1 ELSE parks END,
       ended_at = CASE WHEN $3 IN ('waiting', 'parked') THEN NULL ELSE lk_now() END
  FROM (SELECT coalesce(max(seq), 0) AS last FROM execution_steps WHERE workspace_id = $1 AND execution_id = $2) journal
 WHERE workspace_id = $1 AND id = $2 AND status IN ('running', 'waiting', 'parked') AND status <> $3;

-- name: Uncount
UPDATE executions SET attempt = attempt - $3, parks = parks - CASE WHEN status = 'parked' AND parks > 0 THEN 1 ELSE 0 END
 WHERE workspace_id = $1 AND id = $2 AND status IN ('waiting', 'parked');

-- name: Append
INSERT INTO execution_steps (workspace_id, execution_id, seq, step, kind, status, call_id, format, trust, body, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, lk_now());

-- name: Journal
SELECT seq, step, kind, status, call_id, format, trust, body, created_at
  FROM execution_steps
 WHERE workspace_id = $1 AND execution_id = $2 AND seq > $3
 ORDER BY seq;

-- name: Get
SELECT id, agent, surface, trace_id, parent_id, subject, slot, status, attempt, cuts, parks, input, result, error, prompt_tokens, completion_tokens, cost_usd,
       persona, persona_version, created_at, updated_at, ended_at
  FROM executions
 WHERE workspace_id = $1 AND id = $2;

-- name: Unfinished
SELECT id, agent, surface, trace_id, parent_id, subject, slot, status, attempt, cuts, parks, input, result, error, prompt_tokens, completion_tokens, cost_usd,
       persona, persona_version, created_at, updated_at, ended_at
  FROM executions
 WHERE workspace_id = $1 AND subject = $2 AND status IN ('running', 'waiting', 'parked');

-- name: Open
SELECT id, agent, surface, trace_id, parent_id, subject, slot, status, attempt, cuts, parks, input, result, error, prompt_tokens, completion_tokens, cost_usd,
       persona, persona_version, created_at, updated_at, ended_at
  FROM executions
 WHERE workspace_id = $1 AND surface = $2 AND subject IS NOT NULL AND status IN ('running', 'waiting', 'parked')
 ORDER BY CASE subject WHEN $4 THEN 0 ELSE 1 END, created_at, id
 LIMIT $3;

-- name: OfTrace
SELECT id, agent, surface, trace_id, parent_id, subject, slot, status, attempt, cuts, parks, input, result, error, prompt_tokens, completion_tokens, cost_usd,
       persona, persona_version, created_at, updated_at, ended_at
  FROM executions
 WHERE workspace_id = $1 AND trace_id = $2
 ORDER BY created_at, id
 LIMIT $3;

-- name: StepsOfTrace
-- The first $3 entries, until their bodies exceed $4 bytes together. The entry that exceeds them
-- comes without its body.
WITH traced AS MATERIALIZED (
  SELECT id, created_at FROM executions WHERE workspace_id = $1 AND trace_id = $2),
first AS MATERIALIZED (
  SELECT e.created_at, s.execution_id, s.seq
    FROM traced e
   CROSS JOIN execution_steps s
   WHERE s.workspace_id = $1 AND s.execution_id = e.id
   ORDER BY e.created_at, e.id, s.seq
   LIMIT $3),
sized AS MATERIALIZED (
  SELECT f.created_at, f.execution_id, f.seq, octet_length(CAST(s.body AS text)) AS bytes
    FROM first f
    JOIN execution_steps s ON s.workspace_id = $1 AND s.execution_id = f.execution_id AND s.seq = f.seq),
summed AS (
  SELECT execution_id, seq, bytes, sum(bytes) OVER (ORDER BY created_at, execution_id, seq ROWS UNBOUNDED PRECEDING) AS together
    FROM sized)
SELECT s.execution_id, s.seq, s.step, s.kind, s.status, s.call_id, s.format, s.trust, CASE WHEN f.together <= $4 THEN s.body END, s.created_at
  FROM summed f
  JOIN execution_steps s ON s.workspace_id = $1 AND s.execution_id = f.execution_id AND s.seq = f.seq
 WHERE f.together - f.bytes <= $4
 ORDER BY f.together;

-- name: TotalOfTrace
SELECT count(*), count(CASE status WHEN 'running' THEN 1 END), count(CASE status WHEN 'waiting' THEN 1 END), count(CASE status WHEN 'parked' THEN 1 END),
       CAST(coalesce(sum(prompt_tokens), 0) AS bigint), CAST(coalesce(sum(completion_tokens), 0) AS bigint),
       CAST(coalesce(sum(cost_usd), 0) AS double precision), max(ended_at)
  FROM executions
 WHERE workspace_id = $1 AND trace_id = $2;

-- name: Slot
SELECT id, agent, surface, trace_id, parent_id, subject, slot, status, attempt, cuts, parks, input, result, error, prompt_tokens, completion_tokens, cost_usd,
       persona, persona_version, created_at, updated_at, ended_at
  FROM executions
 WHERE workspace_id = $1 AND surface = $2 AND slot >= $3
 ORDER BY slot DESC
 LIMIT 1;

-- name: LastStep
SELECT e.agent, e.status, coalesce(max(s.step), 0)
  FROM executions e
  LEFT JOIN execution_steps s ON s.workspace_id = e.workspace_id AND s.execution_id = e.id
 WHERE e.workspace_id = $1 AND e.id = $2
 GROUP BY e.agent, e.status;

-- name: List
@Listed;

-- name: Roots
-- The listing, with what all executions of each trace have used and the latest of their errors.
SELECT l.*, (SELECT CAST(coalesce(sum(x.prompt_tokens + x.completion_tokens), 0) AS bigint) FROM executions x
              WHERE x.workspace_id = $1 AND x.trace_id = l.trace_id),
       (SELECT CAST(coalesce(sum(x.cost_usd), 0) AS double precision) FROM executions x WHERE x.workspace_id = $1 AND x.trace_id = l.trace_id),
       (SELECT x.error FROM executions x WHERE x.workspace_id = $1 AND x.trace_id = l.trace_id AND x.error IS NOT NULL
         ORDER BY x.created_at DESC, x.id DESC LIMIT 1)
  FROM (@Listed) AS l
 ORDER BY l.created_at DESC, l.id DESC;

-- name: Cancel
UPDATE executions SET status = 'cancelled', error = $3, updated_at = lk_now(), ended_at = lk_now()
 WHERE workspace_id = $1 AND subject = $2 AND status IN ('running', 'waiting', 'parked')
RETURNING id;

-- name: CancelAgain
UPDATE executions SET error = $3, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'cancelled';

-- name: InLine
-- Whether any execution of a line but $2 is open. It needs far less than Ahead.
SELECT EXISTS (SELECT 1 FROM executions e
                WHERE e.workspace_id = $1 AND e.subject IS NOT NULL AND e.status IN ('running', 'waiting', 'parked')
                  AND e.input ->> 'task' = $4 AND coalesce(e.input ->> 'lane', 'operate') = $3 AND e.id <> $2);

-- name: Ahead
-- Counts executions that began before $2 and that are being worked on, as their lane shows, or will
-- continue soon, as their row in the outbox shows: within $6, and within $8 if they are parked. When $2 has no
-- row yet, all of them count. Inputs without a lane are older than the lanes of other conversations.
SELECT count(*)
  FROM executions e
 WHERE e.workspace_id = $1 AND e.subject IS NOT NULL AND e.status IN ('running', 'waiting', 'parked')
   AND e.input ->> 'task' = $4 AND coalesce(e.input ->> 'lane', 'operate') = $3 AND e.id <> $2
   AND (EXISTS (SELECT 1 FROM agent_locks l
                 WHERE l.workspace_id = $1 AND l.lane = e.subject AND l.token IS NOT NULL AND l.expires_at > (SELECT lk_now()))
     OR EXISTS (SELECT 1 FROM outbox k
                 WHERE k.workspace_id = $1 AND k.topic = $7 AND k.execution_id = e.id AND k.status IN ('ready', 'sending')
                   AND (k.status = 'ready' AND k.due_at >= lk_plus(lk_now(), $5)
                        AND k.due_at <= lk_plus(lk_now(), CASE e.status WHEN 'parked' THEN CAST($8 AS bigint) ELSE CAST($6 AS bigint) END)
                     OR k.status = 'sending' AND k.updated_at > lk_plus(lk_now(), $5))))
   AND (e.created_at, e.id) < (coalesce((SELECT m.created_at FROM executions m WHERE m.workspace_id = $1 AND m.id = $2), lk_now()), $2);

-- name: Joinable
-- Lists executions of a line that have taken no step, and whose input asks to be put into another.
SELECT id, agent, surface, trace_id, parent_id, subject, slot, status, attempt, cuts, parks, input, result, error, prompt_tokens, completion_tokens, cost_usd,
       persona, persona_version, created_at, updated_at, ended_at
  FROM executions e
 WHERE e.workspace_id = $1 AND e.subject IS NOT NULL AND e.status IN ('running', 'parked')
   AND e.input ->> 'task' = $3 AND coalesce(e.input ->> 'lane', 'operate') = $2 AND e.input ->> 'multitask' = $4 AND e.id <> $5
   AND NOT EXISTS (SELECT 1 FROM execution_steps s WHERE s.workspace_id = $1 AND s.execution_id = e.id)
 ORDER BY e.created_at, e.id
 LIMIT $6;

-- name: Line
-- Lists executions of a line that are open and wait for no person.
SELECT id, agent, surface, trace_id, parent_id, subject, slot, status, attempt, cuts, parks, input, result, error, prompt_tokens, completion_tokens, cost_usd,
       persona, persona_version, created_at, updated_at, ended_at
  FROM executions e
 WHERE e.workspace_id = $1 AND e.subject IS NOT NULL AND e.status IN ('running', 'parked')
   AND e.input ->> 'task' = $3 AND coalesce(e.input ->> 'lane', 'operate') = $2 AND e.id <> $4
 ORDER BY e.created_at, e.id
 LIMIT $5;

-- part: leftOfBudgets
-- The fewest tokens that a budget of the workspace, or of the agents $5 and $6, has left: 0 of one that is used up.
(SELECT coalesce(min(CASE b.threshold WHEN 100 THEN 0 ELSE b.allocated - b.consumed END), 9223372036854775807)
   FROM usage_budgets b
  WHERE b.workspace_id = $1 AND (b.scope, b.scope_id) IN (VALUES ('global', ''), ('agent', $5), ('agent', $6))
    AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now()))

-- part: moneyOfBudgets
-- The least money that one of those budgets has left which are capped in money.
(SELECT coalesce(min(b.allocated_micro_usd - b.consumed_micro_usd), 9223372036854775807)
   FROM usage_budgets b
  WHERE b.workspace_id = $1 AND (b.scope, b.scope_id) IN (VALUES ('global', ''), ('agent', $5), ('agent', $6))
    AND b.period_start <= (SELECT lk_now()) AND b.period_end > (SELECT lk_now()))

-- name: SpentIn
-- Sums up the tokens of the turns of agent $5 in a thread that began within $4 before now, except $3. Tells what is left of
-- the budgets of the workspace, and of the agents $5 and $6. Row-level security keeps Postgres from an index on what the
-- inputs say, so the turns are found by their messages, and those that were rolled back by the activity that says so.
SELECT CAST(coalesce(sum(e.prompt_tokens + e.completion_tokens), 0) AS bigint),
  @leftOfBudgets,
  @moneyOfBudgets
  FROM executions e
 WHERE e.workspace_id = $1 AND e.agent = $5 AND e.created_at > (SELECT lk_plus(lk_now(), $4)) AND e.id <> $3
   AND e.id IN (
     SELECT m.execution_id FROM messages m
      WHERE m.workspace_id = $1 AND m.thread_id = $2 AND m.created_at > (SELECT lk_plus(lk_now(), $4))
      UNION
     SELECT a.execution_id FROM agent_activity a
      WHERE a.workspace_id = $1 AND a.skill_name = 'chat.rollback' AND a.created_at > (SELECT lk_plus(lk_now(), $4))
        AND a.thread_id = $2);

-- name: SpentAt
-- SpentIn for the thread of the address $3 on the channel $2, and no exception.
SELECT CAST(coalesce(sum(e.prompt_tokens + e.completion_tokens), 0) AS bigint),
  @leftOfBudgets,
  @moneyOfBudgets
  FROM executions e
 WHERE e.workspace_id = $1 AND e.agent = $5 AND e.created_at > (SELECT lk_plus(lk_now(), $4))
   AND e.id IN (
     SELECT m.execution_id FROM messages m
      WHERE m.workspace_id = $1 AND m.created_at > (SELECT lk_plus(lk_now(), $4))
        AND m.thread_id = (SELECT t.id FROM threads t WHERE t.workspace_id = $1 AND t.channel = $2 AND t.address = $3)
      UNION
     SELECT a.execution_id FROM agent_activity a
      WHERE a.workspace_id = $1 AND a.skill_name = 'chat.rollback' AND a.created_at > (SELECT lk_plus(lk_now(), $4))
        AND a.thread_id = (SELECT t.id FROM threads t WHERE t.workspace_id = $1 AND t.channel = $2 AND t.address = $3));

-- name: Join
UPDATE executions SET status = 'completed', result = $3, updated_at = lk_now(), ended_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status IN ('running', 'parked');

-- name: Wake
-- Makes the first execution except $7 due now that is to continue and that nobody works on. If a
-- sender has claimed its row at this moment, it may have looked too early; then the row is due
-- again. The row is locked even if it is due already: a later claim then sees what this transaction
-- has done.
UPDATE outbox SET due_at = CASE WHEN status = 'ready' AND due_at > lk_now() THEN lk_now() ELSE due_at END, due_again = (status = 'sending')
 WHERE workspace_id = $1 AND topic = $6 AND status IN ('ready', 'sending')
   AND execution_id = (
     SELECT e.id
       FROM outbox k
       JOIN executions e ON e.workspace_id = $1 AND e.id = k.execution_id
      WHERE k.workspace_id = $1 AND k.topic = $6 AND k.status IN ('ready', 'sending')
        AND e.subject IS NOT NULL AND e.status IN ('running', 'waiting', 'parked')
        AND e.input ->> 'task' = $3 AND coalesce(e.input ->> 'lane', 'operate') = $2 AND e.id <> $7
        AND (k.status = 'sending' AND k.updated_at > lk_plus(lk_now(), $4)
          OR k.status = 'ready' AND k.due_at <= lk_plus(lk_now(), CASE e.status WHEN 'parked' THEN CAST($8 AS bigint) ELSE CAST($5 AS bigint) END)
             AND NOT EXISTS (SELECT 1 FROM agent_locks l
                              WHERE l.workspace_id = $1 AND l.lane = e.subject AND l.token IS NOT NULL AND l.expires_at > (SELECT lk_now())))
      ORDER BY e.created_at, e.id
      LIMIT 1);

-- name: History
-- What was worked on under a lane, the latest first. The lane of a turn is the one that its input names.
SELECT h.id, h.agent, h.surface, h.trace_id, h.lane, h.status, h.input, h.outcome, h.created_at,
       coalesce(h.ended_at, CASE WHEN h.status = 'running' AND NOT h.live OR h.status IN ('waiting', 'parked') THEN h.updated_at END), h.live,
       EXISTS (SELECT 1 FROM agent_activity f
                WHERE f.workspace_id = $1 AND f.skill_name = 'lane.force_release' AND f.status = 'success' AND f.created_at >= h.created_at
                  AND f.output ->> 'execution_id' = CAST(h.id AS text))
  FROM (SELECT e.id, e.agent, e.surface, e.trace_id, e.status, e.input, e.result ->> 'outcome' AS outcome, e.created_at, e.updated_at, e.ended_at,
               CASE WHEN e.input ->> 'task' = 'turn' THEN coalesce(e.input ->> 'lane', 'operate') ELSE e.subject END AS lane,
               EXISTS (SELECT 1 FROM agent_locks l WHERE l.workspace_id = $1 AND l.lane = e.subject AND l.token IS NOT NULL
                          AND l.expires_at > (SELECT lk_now())) AS live
          FROM executions e
         WHERE e.workspace_id = $1 AND e.subject IS NOT NULL
           AND (CAST($2 AS text) IS NULL OR e.subject = $2
             OR e.input ->> 'task' = 'turn' AND coalesce(e.input ->> 'lane', 'operate') = $2)
           AND e.created_at >= $3 AND e.created_at < $4
           AND (e.created_at, e.id) < ($5, $6)
         ORDER BY e.created_at DESC, e.id DESC
         LIMIT $7) AS h
 ORDER BY h.created_at DESC, h.id DESC;
