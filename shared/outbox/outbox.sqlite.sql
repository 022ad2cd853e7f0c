-- why: SQLite has one writer, so it skips no rows, and a statement without a row rolls the transaction back.

-- name: Due
SELECT count(*) FROM (
  SELECT 1
    FROM outbox o
   WHERE o.workspace_id = $1 AND o.topic IN (SELECT t.value FROM json_each($2) t)
     AND o.status IN ('ready', 'sending') AND o.due_at <= (SELECT lk_now())
     AND (o.order_key IS NULL OR o.status = 'ready' AND o.expires_at <= lk_now()
       OR NOT EXISTS (SELECT 1 FROM outbox e
                       WHERE e.workspace_id = $1 AND e.order_key = o.order_key AND e.status IN ('queued', 'ready', 'sending')
                         AND e.id <> o.id AND (e.seq < o.seq OR e.status = 'sending')))
   LIMIT $3);

-- name: Claim
-- A row that may no longer be sent is ended instead. It waits for no row before it.
UPDATE outbox SET
  status = due.becomes,
  attempts = attempts + CASE due.becomes WHEN 'sending' THEN 1 ELSE 0 END,
  due_at = CASE due.becomes WHEN 'sending' THEN due.until ELSE due_at END,
  due_again = false,
  claimed_by = CASE due.becomes WHEN 'sending' THEN $5 ELSE claimed_by END,
  claim_token = CASE due.becomes WHEN 'sending' THEN $6 END,
  claimed_until = CASE due.becomes WHEN 'sending' THEN due.until END,
  last_error = CASE due.becomes
    WHEN 'uncertain' THEN 'a try was cut off: it may have had its effect'
    WHEN 'expired' THEN 'its time was over'
    ELSE last_error END,
  updated_at = lk_now()
  FROM (
    SELECT o.id AS row_id, lk_plus(lk_now(), coalesce((SELECT l.value FROM json_each($8) l WHERE l.key = o.topic), $7)) AS until,
           CASE WHEN o.status = 'sending' AND (o.expires_at <= lk_now() OR o.attempts >= o.max_attempts AND o.topic NOT IN (SELECT n.value FROM json_each($10) n)
                  OR o.topic IN (SELECT u.value FROM json_each($3) u)) THEN 'uncertain'
                WHEN o.expires_at <= lk_now() THEN 'expired'
                ELSE 'sending' END AS becomes
      FROM outbox o
     WHERE o.workspace_id = $1 AND o.topic IN (SELECT t.value FROM json_each($2) t)
       AND o.status IN ('ready', 'sending') AND o.due_at <= (SELECT lk_now())
       AND (o.order_key IS NULL OR o.status = 'ready' AND o.expires_at <= lk_now()
         OR NOT EXISTS (SELECT 1 FROM outbox e
                         WHERE e.workspace_id = $1 AND e.order_key = o.order_key AND e.status IN ('queued', 'ready', 'sending')
                           AND e.id <> o.id AND (e.seq < o.seq OR e.status = 'sending')))
       AND coalesce(o.receiver, o.topic) NOT IN (SELECT f.value FROM json_each($9) f)
     ORDER BY o.due_at, o.id
     LIMIT $4) AS due
 WHERE workspace_id = $1 AND id = due.row_id
RETURNING id, kind, topic, key, order_key, seq, payload, format, status, attempts, max_attempts, due_at,
          claimed_by, claimed_until, last_error, supersede_key, expires_at, trace_id, execution_id, created_at, updated_at, sent_at, receiver;

-- name: End
UPDATE outbox SET
  status = CASE WHEN due_again AND kind = 'kick' AND $4 IN ('sent', 'failed') THEN 'ready' ELSE $4 END,
  attempts = CASE WHEN due_again AND kind = 'kick' AND $4 IN ('sent', 'failed') THEN 0 ELSE max(0, attempts - $6) END,
  due_at = CASE WHEN due_again THEN lk_now() ELSE lk_plus(lk_now(), $5) END, due_again = 0,
  claim_token = NULL, claimed_until = NULL, last_error = coalesce($7, last_error),
  sent_at = CASE WHEN $4 = 'sent' AND NOT (due_again AND kind = 'kick') THEN lk_now() END, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND claim_token = $3
RETURNING 'ended';

-- name: EnqueueAll
INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, format, status, max_attempts,
  due_at, expires_at, trace_id, execution_id, receiver, created_at, updated_at)
SELECT $1, r.value ->> 'id', r.value ->> 'kind', r.value ->> 'topic', r.value ->> 'key', r.value ->> 'order_key', r.value ->> 'seq',
       r.value ->> 'payload', r.value ->> 'format', r.value ->> 'status', r.value ->> 'max_attempts', lk_plus(lk_now(), r.value ->> 'delay'),
       lk_plus(lk_now(), r.value ->> 'ttl'), r.value ->> 'trace_id', r.value ->> 'execution_id', r.value ->> 'receiver', lk_now(), lk_now()
  FROM json_each($2) r
 WHERE true
ON CONFLICT (workspace_id, key) DO NOTHING;

-- name: AllDueIn
UPDATE outbox SET due_at = lk_plus(lk_now(), $4), updated_at = lk_now()
 WHERE workspace_id = $1
   AND id IN (SELECT o.id FROM outbox o
               WHERE o.workspace_id = $1 AND o.topic = $2 AND o.status = 'ready' AND o.due_at > lk_plus((SELECT lk_now()), $4)
               ORDER BY o.due_at
               LIMIT $3);

-- name: Rouse
-- One that has ended is ready again, a kick also if its last attempt was cut off. One that is not claimed has all
-- its attempts again.
UPDATE outbox SET
  status = CASE status WHEN 'sending' THEN status ELSE 'ready' END,
  attempts = CASE status WHEN 'sending' THEN attempts ELSE 0 END,
  due_at = CASE status WHEN 'sending' THEN due_at ELSE lk_now() END, due_again = (status = 'sending'),
  sent_at = NULL, updated_at = CASE status WHEN 'sending' THEN updated_at ELSE lk_now() END
 WHERE workspace_id = $1 AND key IN (SELECT k.value FROM json_each($2) k)
   AND (status IN ('ready', 'sending', 'sent', 'failed', 'superseded') OR status = 'uncertain' AND kind = 'kick');
