-- why: Postgres has concurrent writers, which lock a row before they decide, and splits lists with functions of its own.
--
-- A subquery with OFFSET 0 is planned by itself, with its parameters: it looks up the rows of one
-- thread, or one execution. Otherwise Postgres reads all rows of the workspace for each of them
-- where it expects few: its statistics may be of a time when nothing was queued.

-- name: Asker
-- Locks the row: the execution can't end before this transaction does.
SELECT status FROM executions WHERE workspace_id = $1 AND id = $2 FOR SHARE;

-- name: Head
-- Locks the thread's row. A later statement decides about the thread.
SELECT t.active_execution_id, t.lock_stack, t.parked_by,
       (SELECT o.execution_id FROM outbox o WHERE o.workspace_id = $1 AND o.id = t.active_execution_id)
  FROM threads t
 WHERE t.workspace_id = $1 AND t.id = $2
   FOR UPDATE;

-- name: Held
-- Locks the threads that an execution holds.
SELECT id FROM threads
 WHERE workspace_id = $1 AND active_execution_id = $2
 ORDER BY id
   FOR UPDATE;

-- name: Left
-- Locks threads with a stale lock: the holder has ended, or was idle for too long.
SELECT t.id, t.active_execution_id FROM threads t
 WHERE t.workspace_id = $1 AND t.active_execution_id IS NOT NULL
   AND (CASE WHEN t.parked_by = t.active_execution_id THEN t.parked_until <= (SELECT lk_now())
             ELSE t.execution_locked_at <= lk_plus((SELECT lk_now()), $2) END
     OR NOT EXISTS (SELECT FROM executions e WHERE e.workspace_id = $1 AND e.id = t.active_execution_id AND e.status IN ('running', 'waiting', 'parked'))
        AND NOT EXISTS (SELECT FROM outbox o WHERE o.workspace_id = $1 AND o.id = t.active_execution_id AND o.status IN ('ready', 'sending')))
 ORDER BY t.id
 LIMIT $3
   FOR UPDATE SKIP LOCKED;

-- name: Forgotten
-- Locks threads whose queue nobody woke. Either the thread is free and has something queued. Or
-- nothing is on its way, and a queued message is of an execution that may speak under the waiting
-- holder, or is of an ended one that could have.
WITH RECURSIVE queued AS (
  SELECT DISTINCT CAST(substr(q.order_key, 8) AS uuid) AS thread, q.execution_id AS asker
    FROM outbox q
   WHERE q.workspace_id = $1 AND q.status = 'queued' AND q.order_key LIKE 'thread:%'
), above (asker, id, parent_id, inherits) AS (
  SELECT a.asker, p.id, p.parent_id, p.can_inherit_lock
    FROM (SELECT DISTINCT asker FROM queued) a
   CROSS JOIN LATERAL (SELECT * FROM executions e WHERE e.workspace_id = $1 AND e.id = a.asker OFFSET 0) e
   CROSS JOIN LATERAL (SELECT * FROM executions p WHERE p.workspace_id = $1 AND p.id = e.parent_id AND p.status = 'waiting' OFFSET 0) p
   WHERE e.can_inherit_lock AND e.status IN ('running', 'waiting', 'parked')
  UNION ALL
  SELECT a.asker, p.id, p.parent_id, p.can_inherit_lock
    FROM above a
   CROSS JOIN LATERAL (SELECT * FROM executions p WHERE p.workspace_id = $1 AND p.id = a.parent_id AND p.status = 'waiting' OFFSET 0) p
   WHERE a.inherits
), gone (asker, id) AS (
  SELECT e.id, e.parent_id
    FROM (SELECT DISTINCT asker FROM queued) a
   CROSS JOIN LATERAL (SELECT * FROM executions e WHERE e.workspace_id = $1 AND e.id = a.asker OFFSET 0) e
   WHERE e.can_inherit_lock AND e.status NOT IN ('running', 'waiting', 'parked')
  UNION ALL
  SELECT g.asker, p.parent_id
    FROM gone g
   CROSS JOIN LATERAL (SELECT * FROM executions p WHERE p.workspace_id = $1 AND p.id = g.id OFFSET 0) p
   WHERE p.can_inherit_lock
)
SELECT t.id FROM threads t
 WHERE t.workspace_id = $1 AND t.id = ANY (ARRAY(SELECT q.thread FROM queued q))
   AND (t.active_execution_id IS NULL
     OR (t.id IN (SELECT q.thread FROM queued q JOIN above a ON a.asker = q.asker AND a.id = t.active_execution_id)
       OR t.id IN (SELECT q.thread FROM queued q JOIN gone g ON g.asker = q.asker AND g.id = t.active_execution_id))
        AND NOT EXISTS (SELECT FROM outbox o WHERE o.workspace_id = $1 AND o.order_key = 'thread:' || t.id AND o.status IN ('ready', 'sending')))
 ORDER BY t.id
 LIMIT $2
   FOR UPDATE SKIP LOCKED;

-- name: Rouse
-- Wakes $2, whom the person has answered, and every execution that is parked although no thread
-- says so. Threads are locked by now, and executions come first in the lock order. So an execution
-- that is being changed is skipped, and the next sweep finds it.
UPDATE executions SET status = 'running', updated_at = lk_now()
 WHERE workspace_id = $1 AND id IN (
   SELECT e.id FROM executions e
    WHERE e.workspace_id = $1 AND e.status = 'parked' AND e.subject IS NULL
      AND (e.id = $2 OR NOT EXISTS (SELECT FROM threads t WHERE t.workspace_id = $1 AND t.parked_by = e.id))
      FOR NO KEY UPDATE SKIP LOCKED);

-- name: Take
-- The one place that decides who may hold a thread. The stack keeps the entries that live. When the
-- lock was idle for too long, the stack keeps only: the one that parked the thread and the entries
-- below it, the asker, and those that the asker may speak under. The asker's own queued messages do
-- not block it.
WITH RECURSIVE above (id, parent_id, inherits) AS (
  SELECT p.id, p.parent_id, p.can_inherit_lock
    FROM executions e
   CROSS JOIN LATERAL (SELECT * FROM executions p WHERE p.workspace_id = $1 AND p.id = e.parent_id AND p.status = 'waiting' OFFSET 0) p
   WHERE e.workspace_id = $1 AND e.id = $3 AND e.can_inherit_lock
  UNION ALL
  SELECT p.id, p.parent_id, p.can_inherit_lock
    FROM above a
   CROSS JOIN LATERAL (SELECT * FROM executions p WHERE p.workspace_id = $1 AND p.id = a.parent_id AND p.status = 'waiting' OFFSET 0) p
   WHERE a.inherits
), head AS (
  SELECT t.*, t.parked_until > lk_now() AS parked,
         coalesce(t.execution_locked_at <= lk_plus(lk_now(), $4) OR t.parked_by = t.active_execution_id AND t.parked_until <= lk_now(), false) AS idle
    FROM threads t
   WHERE t.workspace_id = $1 AND t.id = $2
), stack AS (
  SELECT CAST(s.id AS uuid) AS id, s.n, h.idle, CASE WHEN h.parked AND CAST(s.id AS uuid) = h.parked_by THEN s.n END AS parked
    FROM head h CROSS JOIN LATERAL jsonb_array_elements_text(h.lock_stack) WITH ORDINALITY s (id, n)
), living AS (
  SELECT s.id, s.n
    FROM stack s
   WHERE (EXISTS (SELECT FROM executions e WHERE e.workspace_id = $1 AND e.id = s.id AND e.status IN ('running', 'waiting', 'parked') OFFSET 0)
       OR EXISTS (SELECT FROM outbox o WHERE o.workspace_id = $1 AND o.id = s.id AND o.status IN ('ready', 'sending') AND o.execution_id IS DISTINCT FROM $3 OFFSET 0))
     AND (NOT s.idle OR s.id = $3 OR s.n <= (SELECT max(p.parked) FROM stack p) OR s.id IN (SELECT a.id FROM above a))
), top AS (
  SELECT (SELECT l.id FROM living l ORDER BY l.n DESC LIMIT 1) AS id
), found AS (
  SELECT t.id AS top, h.parked AND h.parked_by = t.id AS owned,
         coalesce((SELECT jsonb_agg(l.id ORDER BY l.n) FROM living l WHERE l.id <> $3), '[]') AS others
    FROM head h CROSS JOIN top t
), verdict AS (
  SELECT CASE WHEN f.top IS NULL OR f.top = $3 OR f.top IN (SELECT a.id FROM above a) OR f.owned AND h.policy = 'hand_over'
                THEN f.others || to_jsonb(CAST($3 AS text))
              WHEN f.owned AND h.policy = 'supersede' THEN jsonb_build_array(CAST($3 AS text))
          END AS stack
    FROM head h CROSS JOIN found f
   WHERE EXISTS (SELECT FROM executions e WHERE e.workspace_id = $1 AND e.id = $3 AND e.status IN ('running', 'waiting', 'parked'))
)
UPDATE threads t SET
  active_execution_id = $3, lock_stack = v.stack, execution_locked_at = lk_now(), updated_at = lk_now(),
  parked_by = CASE WHEN v.stack @> to_jsonb(t.parked_by) THEN t.parked_by END,
  parked_until = CASE WHEN v.stack @> to_jsonb(t.parked_by) THEN t.parked_until END
  FROM verdict v
 WHERE t.workspace_id = $1 AND t.id = $2 AND v.stack IS NOT NULL;

-- name: Settle
-- Decides who holds the threads after $3 has released them and ended or idle entries are removed:
-- the next of the stack, else the first queued message, for its own send, else nobody. When the
-- next of the stack is waiting, the first queued message of those that may go now decides: one of
-- an execution that may speak under it (the rule of Take) gives that execution the thread. When the
-- message is of the next of the stack itself, or of an ended execution that could have spoken under
-- it, the next of the stack holds the thread.
WITH RECURSIVE head AS (
  SELECT t.*, t.parked_until > lk_now() AS parked,
         coalesce(t.execution_locked_at <= lk_plus(lk_now(), $4) OR t.parked_by = t.active_execution_id AND t.parked_until <= lk_now(), false) AS idle
    FROM (SELECT DISTINCT CAST(i.id AS uuid) AS id FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i (id)) i
   CROSS JOIN LATERAL (SELECT * FROM threads t WHERE t.workspace_id = $1 AND t.id = i.id OFFSET 0) t
   WHERE t.active_execution_id IS NOT DISTINCT FROM coalesce(CAST($3 AS uuid), t.active_execution_id)
      OR EXISTS (SELECT FROM executions e WHERE e.workspace_id = $1 AND e.id = t.active_execution_id AND e.status = 'waiting' OFFSET 0)
), stack AS (
  SELECT h.id AS thread, CAST(s.id AS uuid) AS id, s.n, h.idle, CASE WHEN h.parked AND CAST(s.id AS uuid) = h.parked_by THEN s.n END AS parked
    FROM head h CROSS JOIN LATERAL jsonb_array_elements_text(h.lock_stack) WITH ORDINALITY s (id, n)
), living AS (
  SELECT s.thread, jsonb_agg(s.id ORDER BY s.n) AS stack
    FROM stack s
   WHERE s.id IS DISTINCT FROM $3
     AND (EXISTS (SELECT FROM executions e WHERE e.workspace_id = $1 AND e.id = s.id AND e.status IN ('running', 'waiting', 'parked') OFFSET 0)
       OR EXISTS (SELECT FROM outbox o WHERE o.workspace_id = $1 AND o.id = s.id AND o.status IN ('ready', 'sending') OFFSET 0))
     AND (NOT s.idle OR s.n <= (SELECT max(p.parked) FROM stack p WHERE p.thread = s.thread))
   GROUP BY s.thread
), heads AS (
  SELECT h.id AS thread,
         (SELECT q.id FROM outbox q
           WHERE q.workspace_id = $1 AND q.order_key = 'thread:' || h.id AND q.status = 'queued' AND (q.expires_at IS NULL OR q.expires_at > lk_now())
           ORDER BY q.seq LIMIT 1) AS id
    FROM head h
), asks AS (
  SELECT l.thread, w.id AS top, q.execution_id AS asker, q.seq
    FROM living l
   CROSS JOIN LATERAL (SELECT * FROM executions w WHERE w.workspace_id = $1 AND w.id = CAST(l.stack ->> -1 AS uuid) AND w.status = 'waiting' OFFSET 0) w
   CROSS JOIN LATERAL (
     SELECT * FROM outbox q
      WHERE q.workspace_id = $1 AND q.order_key = 'thread:' || l.thread AND q.status = 'queued' AND (q.expires_at IS NULL OR q.expires_at > lk_now())
     OFFSET 0) q
), above (asker, id, parent_id, inherits) AS (
  SELECT a.asker, p.id, p.parent_id, p.can_inherit_lock
    FROM (SELECT DISTINCT asker FROM asks) a
   CROSS JOIN LATERAL (SELECT * FROM executions e WHERE e.workspace_id = $1 AND e.id = a.asker OFFSET 0) e
   CROSS JOIN LATERAL (SELECT * FROM executions p WHERE p.workspace_id = $1 AND p.id = e.parent_id AND p.status = 'waiting' OFFSET 0) p
   WHERE e.can_inherit_lock AND e.status IN ('running', 'waiting', 'parked')
  UNION ALL
  SELECT a.asker, p.id, p.parent_id, p.can_inherit_lock
    FROM above a
   CROSS JOIN LATERAL (SELECT * FROM executions p WHERE p.workspace_id = $1 AND p.id = a.parent_id AND p.status = 'waiting' OFFSET 0) p
   WHERE a.inherits
), gone (asker, id) AS (
  SELECT e.id, e.parent_id
    FROM (SELECT DISTINCT asker FROM asks) a
   CROSS JOIN LATERAL (SELECT * FROM executions e WHERE e.workspace_id = $1 AND e.id = a.asker OFFSET 0) e
   WHERE e.can_inherit_lock AND e.status NOT IN ('running', 'waiting', 'parked')
  UNION ALL
  SELECT g.asker, p.parent_id
    FROM gone g
   CROSS JOIN LATERAL (SELECT * FROM executions p WHERE p.workspace_id = $1 AND p.id = g.id OFFSET 0) p
   WHERE p.can_inherit_lock
), heirs AS (
  SELECT DISTINCT ON (a.thread) a.thread, CASE WHEN EXISTS (SELECT FROM above b WHERE b.asker = a.asker AND b.id = a.top) THEN a.asker END AS id
    FROM asks a
   WHERE a.asker = a.top
      OR EXISTS (SELECT FROM above b WHERE b.asker = a.asker AND b.id = a.top)
      OR EXISTS (SELECT FROM gone g WHERE g.asker = a.asker AND g.id = a.top)
   ORDER BY a.thread, a.seq
), verdict AS (
  SELECT d.thread, CASE WHEN l.stack IS NULL AND d.id IS NULL THEN '[]'
                        WHEN l.stack IS NULL THEN jsonb_build_array(d.id)
                        WHEN h.id IS NULL THEN l.stack
                        ELSE (l.stack - CAST(h.id AS text)) || to_jsonb(CAST(h.id AS text)) END AS stack
    FROM heads d LEFT JOIN living l ON l.thread = d.thread LEFT JOIN heirs h ON h.thread = d.thread
)
UPDATE threads t SET
  active_execution_id = CAST(v.stack ->> -1 AS uuid), lock_stack = v.stack,
  execution_locked_at = CASE WHEN v.stack = '[]' THEN NULL
                             WHEN v.stack ->> -1 = CAST(t.active_execution_id AS text) THEN t.execution_locked_at
                             ELSE lk_now() END,
  parked_by = CASE WHEN v.stack @> to_jsonb(t.parked_by) THEN t.parked_by END,
  parked_until = CASE WHEN v.stack @> to_jsonb(t.parked_by) THEN t.parked_until END,
  updated_at = lk_now()
  FROM verdict v
 WHERE t.workspace_id = $1 AND t.id = v.thread;

-- name: Wake
-- Makes queued messages ready, with numbers after all that went before: a message that holds its
-- thread, the messages of the holder, and those of ended executions that the holder, or one under
-- it, had begun and waited for.
WITH RECURSIVE queued AS (
  SELECT t.id AS thread, t.active_execution_id AS holder, q.id, q.execution_id AS asker, q.seq
    FROM (SELECT DISTINCT CAST(i.id AS uuid) AS id FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i (id)) i
   CROSS JOIN LATERAL (SELECT * FROM threads t WHERE t.workspace_id = $1 AND t.id = i.id OFFSET 0) t
   CROSS JOIN LATERAL (SELECT * FROM outbox q WHERE q.workspace_id = $1 AND q.order_key = 'thread:' || t.id AND q.status = 'queued' OFFSET 0) q
), gone (asker, id) AS (
  SELECT e.id, e.parent_id
    FROM (SELECT DISTINCT asker FROM queued) a
   CROSS JOIN LATERAL (SELECT * FROM executions e WHERE e.workspace_id = $1 AND e.id = a.asker OFFSET 0) e
   WHERE e.can_inherit_lock AND e.status NOT IN ('running', 'waiting', 'parked')
  UNION ALL
  SELECT g.asker, p.parent_id
    FROM gone g
   CROSS JOIN LATERAL (SELECT * FROM executions p WHERE p.workspace_id = $1 AND p.id = g.id OFFSET 0) p
   WHERE p.can_inherit_lock
), woken AS (
  SELECT q.id, row_number() OVER (PARTITION BY q.thread ORDER BY q.seq)
         + coalesce((SELECT max(g.seq) FROM outbox g WHERE g.workspace_id = $1 AND g.order_key = 'thread:' || q.thread AND g.seq < $3), 0) AS seq
    FROM queued q
   WHERE q.id = q.holder OR q.asker = q.holder OR EXISTS (SELECT FROM gone g WHERE g.asker = q.asker AND g.id = q.holder)
)
UPDATE outbox o SET status = 'ready', seq = w.seq, due_at = greatest(o.due_at, lk_now()), updated_at = lk_now()
  FROM woken w
 WHERE o.workspace_id = $1 AND o.id = w.id;

-- name: Glances
-- The last message of each thread, and the agent of the execution that holds it. Row-level security keeps
-- Postgres from an index where a row is compared with coalesce, so h computes it.
SELECT CAST(t.id AS text), m.role, left(m.body, $3), m.created_at, e.agent
  FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i (id)
 CROSS JOIN LATERAL (SELECT * FROM threads t WHERE t.workspace_id = $1 AND t.id = CAST(i.id AS uuid) OFFSET 0) t
  LEFT JOIN LATERAL (
    SELECT m.role, m.body, m.created_at FROM messages m WHERE m.workspace_id = $1 AND m.thread_id = t.id ORDER BY m.seq DESC LIMIT 1) m ON true
  LEFT JOIN outbox o ON o.workspace_id = $1 AND o.id = t.active_execution_id
 CROSS JOIN LATERAL (SELECT coalesce(o.execution_id, t.active_execution_id) AS id OFFSET 0) h
  LEFT JOIN executions e ON e.workspace_id = $1 AND e.id = h.id;
