-- why: SQLite has one writer, so nothing needs a lock before a decision, and it splits lists with functions of its own.

-- name: Asker
SELECT status FROM executions WHERE workspace_id = $1 AND id = $2;

-- name: Head
SELECT t.active_execution_id, t.lock_stack, t.parked_by,
       (SELECT o.execution_id FROM outbox o WHERE o.workspace_id = $1 AND o.id = t.active_execution_id)
  FROM threads t
 WHERE t.workspace_id = $1 AND t.id = $2;

-- name: Held
SELECT id FROM threads
 WHERE workspace_id = $1 AND active_execution_id = $2;

-- name: Left
SELECT t.id, t.active_execution_id FROM threads t
 WHERE t.workspace_id = $1 AND t.active_execution_id IS NOT NULL
   AND (CASE WHEN t.parked_by = t.active_execution_id THEN t.parked_until <= (SELECT lk_now())
             ELSE t.execution_locked_at <= lk_plus((SELECT lk_now()), $2) END
     OR NOT EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = $1 AND e.id = t.active_execution_id AND e.status IN ('running', 'waiting', 'parked'))
        AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = $1 AND o.id = t.active_execution_id AND o.status IN ('ready', 'sending')))
 ORDER BY t.id
 LIMIT $3;

-- name: Forgotten
WITH RECURSIVE queued AS MATERIALIZED (
  SELECT DISTINCT substr(q.order_key, 8) AS thread, q.execution_id AS asker
    FROM outbox q
   WHERE q.workspace_id = $1 AND q.status = 'queued' AND q.order_key LIKE 'thread:%'
), above (asker, id, parent_id, inherits) AS (
  SELECT a.asker, p.id, p.parent_id, p.can_inherit_lock
    FROM (SELECT DISTINCT asker FROM queued) a
    JOIN executions e ON e.workspace_id = $1 AND e.id = a.asker AND e.can_inherit_lock AND e.status IN ('running', 'waiting', 'parked')
    JOIN executions p ON p.workspace_id = $1 AND p.id = e.parent_id AND p.status = 'waiting'
  UNION ALL
  SELECT a.asker, p.id, p.parent_id, p.can_inherit_lock
    FROM above a
    JOIN executions p ON p.workspace_id = $1 AND p.id = a.parent_id AND p.status = 'waiting'
   WHERE a.inherits
), gone (asker, id) AS (
  SELECT e.id, e.parent_id
    FROM (SELECT DISTINCT asker FROM queued) a
    JOIN executions e ON e.workspace_id = $1 AND e.id = a.asker AND e.can_inherit_lock AND e.status NOT IN ('running', 'waiting', 'parked')
  UNION ALL
  SELECT g.asker, p.parent_id
    FROM gone g
    JOIN executions p ON p.workspace_id = $1 AND p.id = g.id AND p.can_inherit_lock
)
SELECT t.id FROM threads t
 WHERE t.workspace_id = $1 AND t.id IN (SELECT q.thread FROM queued q)
   AND (t.active_execution_id IS NULL
     OR (t.id IN (SELECT q.thread FROM queued q JOIN above a ON a.asker = q.asker AND a.id = t.active_execution_id)
       OR t.id IN (SELECT q.thread FROM queued q JOIN gone g ON g.asker = q.asker AND g.id = t.active_execution_id))
        AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = $1 AND o.order_key = 'thread:' || t.id AND o.status IN ('ready', 'sending')))
 ORDER BY t.id
 LIMIT $2;

-- name: Rouse
UPDATE executions SET status = 'running', updated_at = lk_now()
 WHERE workspace_id = $1 AND status = 'parked' AND subject IS NULL
   AND (id = $2 OR NOT EXISTS (SELECT 1 FROM threads t WHERE t.workspace_id = $1 AND t.parked_by = executions.id));

-- name: Take
WITH RECURSIVE above (id, parent_id, inherits) AS (
  SELECT p.id, p.parent_id, p.can_inherit_lock
    FROM executions e
    JOIN executions p ON p.workspace_id = $1 AND p.id = e.parent_id AND p.status = 'waiting'
   WHERE e.workspace_id = $1 AND e.id = $3 AND e.can_inherit_lock
  UNION ALL
  SELECT p.id, p.parent_id, p.can_inherit_lock
    FROM above a
    JOIN executions p ON p.workspace_id = $1 AND p.id = a.parent_id AND p.status = 'waiting'
   WHERE a.inherits
), head AS (
  SELECT t.*, t.parked_until > lk_now() AS parked,
         coalesce(t.execution_locked_at <= lk_plus(lk_now(), $4) OR t.parked_by = t.active_execution_id AND t.parked_until <= lk_now(), false) AS idle
    FROM threads t
   WHERE t.workspace_id = $1 AND t.id = $2
), stack AS (
  SELECT s.value AS id, s.key AS n, h.idle, CASE WHEN h.parked AND s.value = h.parked_by THEN s.key END AS parked
    FROM head h, json_each(h.lock_stack) s
), living AS MATERIALIZED (
  SELECT s.id, s.n
    FROM stack s
   WHERE (EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = $1 AND e.id = s.id AND e.status IN ('running', 'waiting', 'parked'))
       OR EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = $1 AND o.id = s.id AND o.status IN ('ready', 'sending') AND o.execution_id IS NOT $3))
     AND (NOT s.idle OR s.id = $3 OR s.n <= (SELECT max(p.parked) FROM stack p) OR s.id IN (SELECT a.id FROM above a))
), top AS (
  SELECT (SELECT l.id FROM living l ORDER BY l.n DESC LIMIT 1) AS id
), found AS MATERIALIZED (
  SELECT t.id AS top, h.parked AND h.parked_by = t.id AS owned,
         (SELECT json_group_array(l.id ORDER BY l.n) FROM living l WHERE l.id <> $3) AS others
    FROM head h CROSS JOIN top t
), verdict AS MATERIALIZED (
  SELECT CASE WHEN f.top IS NULL OR f.top = $3 OR f.top IN (SELECT a.id FROM above a) OR f.owned AND h.policy = 'hand_over'
                THEN json_insert(f.others, '$[#]', $3)
              WHEN f.owned AND h.policy = 'supersede' THEN json_array($3)
          END AS stack
    FROM head h CROSS JOIN found f
   WHERE EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = $1 AND e.id = $3 AND e.status IN ('running', 'waiting', 'parked'))
)
UPDATE threads SET
  active_execution_id = $3, lock_stack = v.stack, execution_locked_at = lk_now(), updated_at = lk_now(),
  parked_by = CASE WHEN instr(v.stack, parked_by) THEN parked_by END,
  parked_until = CASE WHEN instr(v.stack, parked_by) THEN parked_until END
  FROM verdict v
 WHERE workspace_id = $1 AND id = $2 AND v.stack IS NOT NULL;

-- name: Settle
WITH RECURSIVE head AS (
  SELECT t.*, t.parked_until > lk_now() AS parked,
         coalesce(t.execution_locked_at <= lk_plus(lk_now(), $4) OR t.parked_by = t.active_execution_id AND t.parked_until <= lk_now(), false) AS idle
    FROM threads t
   WHERE t.workspace_id = $1 AND t.id IN (SELECT i.value FROM json_each($2) i)
     AND (t.active_execution_id IS coalesce($3, t.active_execution_id)
       OR EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = $1 AND e.id = t.active_execution_id AND e.status = 'waiting'))
), stack AS (
  SELECT h.id AS thread, s.value AS id, s.key AS n, h.idle, CASE WHEN h.parked AND s.value = h.parked_by THEN s.key END AS parked
    FROM head h, json_each(h.lock_stack) s
), living AS MATERIALIZED (
  SELECT s.thread, json_group_array(s.id ORDER BY s.n) AS stack
    FROM stack s
   WHERE s.id IS NOT $3
     AND (EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = $1 AND e.id = s.id AND e.status IN ('running', 'waiting', 'parked'))
       OR EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = $1 AND o.id = s.id AND o.status IN ('ready', 'sending')))
     AND (NOT s.idle OR s.n <= (SELECT max(p.parked) FROM stack p WHERE p.thread = s.thread))
   GROUP BY s.thread
), heads AS (
  SELECT h.id AS thread,
         (SELECT q.id FROM outbox q
           WHERE q.workspace_id = $1 AND q.order_key = 'thread:' || h.id AND q.status = 'queued' AND (q.expires_at IS NULL OR q.expires_at > lk_now())
           ORDER BY q.seq LIMIT 1) AS id
    FROM head h
), asks AS MATERIALIZED (
  SELECT l.thread, w.id AS top, q.execution_id AS asker, q.seq
    FROM living l
    JOIN executions w ON w.workspace_id = $1 AND w.id = json_extract(l.stack, '$[#-1]') AND w.status = 'waiting'
    JOIN outbox q ON q.workspace_id = $1 AND q.order_key = 'thread:' || l.thread AND q.status = 'queued'
                 AND (q.expires_at IS NULL OR q.expires_at > lk_now())
), above (asker, id, parent_id, inherits) AS (
  SELECT a.asker, p.id, p.parent_id, p.can_inherit_lock
    FROM (SELECT DISTINCT asker FROM asks) a
    CROSS JOIN executions e ON e.workspace_id = $1 AND e.id = a.asker AND e.can_inherit_lock AND e.status IN ('running', 'waiting', 'parked')
    JOIN executions p ON p.workspace_id = $1 AND p.id = e.parent_id AND p.status = 'waiting'
  UNION ALL
  SELECT a.asker, p.id, p.parent_id, p.can_inherit_lock
    FROM above a
    JOIN executions p ON p.workspace_id = $1 AND p.id = a.parent_id AND p.status = 'waiting'
   WHERE a.inherits
), gone (asker, id) AS (
  SELECT e.id, e.parent_id
    FROM (SELECT DISTINCT asker FROM asks) a
    CROSS JOIN executions e ON e.workspace_id = $1 AND e.id = a.asker AND e.can_inherit_lock AND e.status NOT IN ('running', 'waiting', 'parked')
  UNION ALL
  SELECT g.asker, p.parent_id
    FROM gone g
    JOIN executions p ON p.workspace_id = $1 AND p.id = g.id AND p.can_inherit_lock
), goes AS MATERIALIZED (
  SELECT a.thread, a.seq, CASE WHEN EXISTS (SELECT 1 FROM above b WHERE b.asker = a.asker AND b.id = a.top) THEN a.asker END AS heir
    FROM asks a
   WHERE a.asker = a.top
      OR EXISTS (SELECT 1 FROM above b WHERE b.asker = a.asker AND b.id = a.top)
      OR EXISTS (SELECT 1 FROM gone g WHERE g.asker = a.asker AND g.id = a.top)
), heirs AS MATERIALIZED (
  SELECT g.thread, g.heir AS id, min(g.seq)
    FROM goes g
   GROUP BY g.thread
), verdict AS MATERIALIZED (
  SELECT d.thread, CASE WHEN l.stack IS NULL AND d.id IS NULL THEN json_array()
                        WHEN l.stack IS NULL THEN json_array(d.id)
                        WHEN h.id IS NULL THEN l.stack
                        ELSE json_insert((SELECT json_group_array(j.value ORDER BY j.key) FROM json_each(l.stack) j WHERE j.value <> h.id), '$[#]', h.id)
                   END AS stack
    FROM heads d LEFT JOIN living l ON l.thread = d.thread LEFT JOIN heirs h ON h.thread = d.thread
)
UPDATE threads SET
  active_execution_id = json_extract(v.stack, '$[#-1]'), lock_stack = v.stack,
  execution_locked_at = CASE WHEN v.stack = '[]' THEN NULL
                             WHEN json_extract(v.stack, '$[#-1]') = active_execution_id THEN execution_locked_at
                             ELSE lk_now() END,
  parked_by = CASE WHEN instr(v.stack, parked_by) THEN parked_by END,
  parked_until = CASE WHEN instr(v.stack, parked_by) THEN parked_until END,
  updated_at = lk_now()
  FROM verdict v
 WHERE workspace_id = $1 AND id = v.thread;

-- name: Wake
WITH RECURSIVE queued AS MATERIALIZED (
  SELECT q.execution_id AS asker
    FROM outbox q
   WHERE q.workspace_id = $1 AND q.status = 'queued' AND q.order_key IN (SELECT 'thread:' || i.value FROM json_each($2) i)
), gone (asker, id) AS (
  SELECT e.id, e.parent_id
    FROM (SELECT DISTINCT asker FROM queued) a
    JOIN executions e ON e.workspace_id = $1 AND e.id = a.asker AND e.can_inherit_lock AND e.status NOT IN ('running', 'waiting', 'parked')
  UNION ALL
  SELECT g.asker, p.parent_id
    FROM gone g
    JOIN executions p ON p.workspace_id = $1 AND p.id = g.id AND p.can_inherit_lock
)
UPDATE outbox SET status = 'ready', seq = n.seq, due_at = max(due_at, lk_now()), updated_at = lk_now()
  FROM (SELECT q.id AS row_id, row_number() OVER (PARTITION BY t.id ORDER BY q.seq)
               + coalesce((SELECT max(g.seq) FROM outbox g WHERE g.workspace_id = $1 AND g.order_key = 'thread:' || t.id AND g.seq < $3), 0) AS seq
          FROM threads t
          JOIN outbox q ON q.workspace_id = $1 AND q.order_key = 'thread:' || t.id AND q.status = 'queued'
                       AND (q.id = t.active_execution_id OR q.execution_id = t.active_execution_id
                         OR EXISTS (SELECT 1 FROM gone g WHERE g.asker = q.execution_id AND g.id = t.active_execution_id))
         WHERE t.workspace_id = $1 AND t.id IN (SELECT i.value FROM json_each($2) i)) n
 WHERE workspace_id = $1 AND id = n.row_id
   AND status = 'queued' AND order_key IN (SELECT 'thread:' || i.value FROM json_each($2) i); -- uses an index

-- name: Glances
SELECT t.id, m.role, substr(m.body, 1, $3), m.created_at, e.agent
  FROM json_each($2) i
  JOIN threads t ON t.workspace_id = $1 AND t.id = i.value
  LEFT JOIN messages m ON m.workspace_id = $1 AND m.thread_id = t.id
        AND m.seq = (SELECT max(n.seq) FROM messages n WHERE n.workspace_id = $1 AND n.thread_id = t.id)
  LEFT JOIN outbox o ON o.workspace_id = $1 AND o.id = t.active_execution_id
  LEFT JOIN executions e ON e.workspace_id = $1 AND e.id = coalesce(o.execution_id, t.active_execution_id);
