-- name: Open
INSERT INTO threads (workspace_id, id, channel, address, policy, metadata, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, n.at, n.at
  FROM (SELECT lk_now() AS at) n
 WHERE true
ON CONFLICT (workspace_id, channel, address) DO NOTHING;

-- name: Edit
UPDATE threads SET policy = coalesce($3, policy), metadata = coalesce($4, metadata), updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2;

-- name: Get
SELECT t.id, t.channel, t.address, t.policy, t.metadata, t.active_execution_id, o.execution_id, t.lock_stack, t.execution_locked_at,
       t.parked_by, t.parked_until, t.created_at, t.updated_at,
       (SELECT count(*) FROM outbox q WHERE q.workspace_id = $1 AND q.order_key = 'thread:' || t.id AND q.status = 'queued'),
       CASE WHEN t.active_execution_id IS NULL THEN ''
            WHEN coalesce(e.status, o.status) NOT IN ('running', 'waiting', 'parked', 'ready', 'sending') THEN 'stale'
            WHEN t.parked_by = t.active_execution_id THEN CASE WHEN t.parked_until > lk_now() THEN 'active' ELSE 'stale' END
            WHEN t.execution_locked_at <= lk_plus(lk_now(), $3) THEN 'stale'
            ELSE 'active' END,
       lk_now()
  FROM threads t
  LEFT JOIN executions e ON e.workspace_id = $1 AND e.id = t.active_execution_id
  LEFT JOIN outbox o ON o.workspace_id = $1 AND o.id = t.active_execution_id
 WHERE t.workspace_id = $1 AND t.id = $2;

-- name: List
-- A lock is stale when its holder has ended, or was idle for too long and has not parked the
-- thread. What the list shows beside a thread is read for the page alone, unless the lock chooses the
-- threads: those are held ones, which are few.
SELECT l.* FROM (
  SELECT t.id, t.channel, t.address, t.policy, t.metadata, t.active_execution_id, o.execution_id, t.lock_stack, t.execution_locked_at,
         t.parked_by, t.parked_until, t.created_at, t.updated_at,
         (SELECT count(*) FROM outbox q WHERE q.workspace_id = $1 AND q.order_key = 'thread:' || t.id AND q.status = 'queued') AS queued,
         CASE WHEN t.active_execution_id IS NULL THEN ''
              WHEN coalesce(e.status, o.status) NOT IN ('running', 'waiting', 'parked', 'ready', 'sending') THEN 'stale'
              WHEN t.parked_by = t.active_execution_id THEN CASE WHEN t.parked_until > lk_now() THEN 'active' ELSE 'stale' END
              WHEN t.execution_locked_at <= lk_plus(lk_now(), $2) THEN 'stale'
              ELSE 'active' END AS lock,
         lk_now() AS now
    FROM (SELECT t.* FROM threads t
           WHERE t.workspace_id = $1
             AND (CAST($3 AS text) IS NULL OR t.channel = $3)
             AND (CAST($4 AS text) IS NULL OR t.address = $4)
             AND (CAST($5 AS text) IS NULL OR t.active_execution_id IS NOT NULL)
             AND (t.created_at, t.id) < ($6, $7)
           ORDER BY t.created_at DESC, t.id DESC
           LIMIT CASE WHEN CAST($5 AS text) IS NULL THEN CAST($8 AS bigint) ELSE 9223372036854775807 END) t
    LEFT JOIN executions e ON e.workspace_id = $1 AND e.id = t.active_execution_id
    LEFT JOIN outbox o ON o.workspace_id = $1 AND o.id = t.active_execution_id) l
 WHERE CAST($5 AS text) IS NULL OR l.lock = $5
 ORDER BY l.created_at DESC, l.id DESC
 LIMIT $8;

-- name: TakeFree
-- Gives a thread that nobody holds to an execution without a parent, as Take would. The transaction has
-- locked the thread's row in an earlier statement.
UPDATE threads SET active_execution_id = $3, lock_stack = $4, execution_locked_at = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND active_execution_id IS NULL AND parked_by IS NULL;

-- name: FreeOf
-- Frees the threads that only $2 holds and for which nothing is queued, as Settle would. The transaction
-- has locked their rows in an earlier statement.
UPDATE threads SET active_execution_id = NULL, lock_stack = '[]', execution_locked_at = NULL, parked_by = NULL, parked_until = NULL,
       updated_at = lk_now()
 WHERE workspace_id = $1 AND active_execution_id = $2 AND lock_stack = $3
   AND NOT EXISTS (SELECT 1 FROM outbox q WHERE q.workspace_id = $1 AND q.order_key = 'thread:' || threads.id AND q.status = 'queued')
RETURNING id;

-- name: Bump
-- Takes the next number of a thread, locks its row, and returns who has parked it.
UPDATE threads SET next_seq = next_seq + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2
RETURNING parked_by;

-- name: Keyed
SELECT id, seq, role, body, execution_id, key, data, created_at
  FROM messages
 WHERE workspace_id = $1 AND thread_id = $2 AND key = $3;

-- name: Say
-- Stores a message with the number taken last. A thread has one message for each id and for each
-- key.
INSERT INTO messages (workspace_id, id, thread_id, seq, role, body, execution_id, key, data, created_at)
SELECT t.workspace_id, $3, t.id, t.next_seq - 1, $4, $5, $6, $7, $8, lk_now()
  FROM threads t
 WHERE t.workspace_id = $1 AND t.id = $2
ON CONFLICT DO NOTHING;

-- name: Messages
SELECT id, seq, role, body, execution_id, key, data, created_at
  FROM messages
 WHERE workspace_id = $1 AND thread_id = $2 AND seq > $3
 ORDER BY seq
 LIMIT $4;

-- name: Known
SELECT id, payload FROM outbox WHERE workspace_id = $1 AND key = $2;

-- name: Numbers
-- The last number of the messages that are not queued, the last of all, how many are open, and the
-- trace of the execution.
SELECT coalesce((SELECT max(seq) FROM outbox WHERE workspace_id = $1 AND order_key = $2 AND seq < $3), 0),
       coalesce((SELECT max(seq) FROM outbox WHERE workspace_id = $1 AND order_key = $2), 0),
       (SELECT count(*) FROM outbox WHERE workspace_id = $1 AND order_key = $2 AND status IN ('queued', 'ready', 'sending')),
       coalesce((SELECT trace_id FROM executions WHERE workspace_id = $1 AND id = $4), '');

-- name: Place
-- The status of a message, and how many are queued up to it.
SELECT o.status,
       (SELECT count(*) FROM outbox q
         WHERE q.workspace_id = $1 AND q.order_key = o.order_key AND q.status = 'queued' AND q.seq <= o.seq)
  FROM outbox o
 WHERE o.workspace_id = $1 AND o.id = $2;

-- name: Unsend
-- Takes back a message that nobody has tried to send.
UPDATE outbox SET status = 'superseded', updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND order_key = 'thread:' || $3 AND status IN ('queued', 'ready') AND attempts = 0;

-- name: Waiting
-- The queued messages, in the order in which they go.
SELECT id, execution_id, created_at, expires_at, lk_now()
  FROM outbox
 WHERE workspace_id = $1 AND order_key = $2 AND status = 'queued'
 ORDER BY seq
 LIMIT $3;

-- name: Blocking
-- What the holder of a thread waits for, what that waits for, and so on: the holder of a thread in
-- which it has something queued, or an execution that it has begun and waits for.
WITH RECURSIVE blocked (execution, thread, holder) AS (
  SELECT DISTINCT q.execution_id, t.id, coalesce(o.execution_id, t.active_execution_id)
    FROM outbox q
    JOIN threads t ON t.workspace_id = $1 AND q.order_key = 'thread:' || t.id AND t.active_execution_id IS NOT NULL
    LEFT JOIN outbox o ON o.workspace_id = $1 AND o.id = t.active_execution_id
   WHERE q.workspace_id = $1 AND q.status = 'queued' AND q.execution_id <> coalesce(o.execution_id, t.active_execution_id)
  UNION ALL
  SELECT p.id, NULL, c.id
    FROM executions p
    JOIN executions c ON c.workspace_id = $1 AND c.parent_id = p.id AND c.can_inherit_lock AND c.status IN ('running', 'waiting', 'parked')
   WHERE p.workspace_id = $1 AND p.status = 'waiting'
), chain (execution, thread, holder) AS (
  SELECT b.execution, b.thread, b.holder
    FROM threads t
    LEFT JOIN outbox o ON o.workspace_id = $1 AND o.id = t.active_execution_id
    JOIN blocked b ON b.execution = coalesce(o.execution_id, t.active_execution_id)
   WHERE t.workspace_id = $1 AND t.id = $2
  UNION
  SELECT b.execution, b.thread, b.holder
    FROM chain c
    JOIN blocked b ON b.execution = c.holder
)
SELECT execution, thread, holder FROM chain LIMIT $3;

-- name: Refresh
UPDATE threads SET execution_locked_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND active_execution_id = $3;

-- name: Park
-- No effect when the person has spoken since their message $5 or, without one, since the last
-- message was sent.
UPDATE threads SET parked_by = $3, parked_until = lk_plus(lk_now(), $4), execution_locked_at = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND active_execution_id = $3
   AND NOT coalesce(
     (SELECT CASE WHEN r.seq IS NOT NULL THEN m.seq > r.seq
                  ELSE m.created_at > (SELECT o.created_at FROM outbox o
                                        WHERE o.workspace_id = $1 AND o.order_key = 'thread:' || threads.id AND o.seq < $6
                                        ORDER BY o.seq DESC LIMIT 1) END
        FROM messages m
        LEFT JOIN messages r ON r.workspace_id = $1 AND r.id = $5 AND r.thread_id = m.thread_id AND r.role = 'user'
       WHERE m.workspace_id = $1 AND m.thread_id = threads.id AND m.role = 'user'
       ORDER BY m.seq DESC LIMIT 1), false);

-- name: Unpark
UPDATE threads SET parked_by = NULL, parked_until = NULL, updated_at = lk_now(),
       execution_locked_at = CASE WHEN active_execution_id IS NOT NULL THEN lk_now() END
 WHERE workspace_id = $1 AND id = $2;

-- name: Lapse
-- Makes queued messages ready that have waited too long; the next claim ends them as expired.
WITH late AS MATERIALIZED (
  SELECT q.id FROM outbox q
   WHERE q.workspace_id = $1 AND q.status = 'queued' AND q.expires_at <= (SELECT lk_now())
     AND q.order_key LIKE 'thread:%'
   LIMIT $2)
UPDATE outbox SET status = 'ready', updated_at = lk_now()
 WHERE workspace_id = $1 AND status = 'queued' AND id IN (SELECT id FROM late);

-- name: Due
-- Whether a sweep has something to do: a stale lock, a queue of a free thread, a message that has
-- waited too long, or an execution that is parked although no thread says so.
SELECT CASE WHEN EXISTS (
         SELECT 1 FROM threads t
          WHERE t.workspace_id = $1 AND t.active_execution_id IS NOT NULL
            AND (CASE WHEN t.parked_by = t.active_execution_id THEN t.parked_until <= (SELECT lk_now())
                      ELSE t.execution_locked_at <= lk_plus((SELECT lk_now()), $2) END
              OR NOT EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = $1 AND e.id = t.active_execution_id AND e.status IN ('running', 'waiting', 'parked'))
                 AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = $1 AND o.id = t.active_execution_id AND o.status IN ('ready', 'sending'))))
       OR EXISTS (
         SELECT 1 FROM outbox q
           JOIN threads t ON t.workspace_id = $1 AND q.order_key = 'thread:' || t.id
          WHERE q.workspace_id = $1 AND q.status = 'queued' AND (t.active_execution_id IS NULL OR q.expires_at <= (SELECT lk_now())))
       OR EXISTS (
         SELECT 1 FROM executions e
          WHERE e.workspace_id = $1 AND e.status = 'parked' AND e.subject IS NULL
            AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.workspace_id = $1 AND t.parked_by = e.id))
       THEN 1 ELSE 0 END;
