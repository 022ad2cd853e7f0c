-- why: Postgres has concurrent writers, skips rows that another transaction claims, and proves a claim in a function that raises.

-- name: Due
SELECT count(*) FROM (
  SELECT 1
    FROM jsonb_array_elements_text(CAST($2 AS jsonb)) t (topic)
    JOIN outbox o ON o.workspace_id = $1 AND o.topic = t.topic AND o.status IN ('ready', 'sending') AND o.due_at <= (SELECT lk_now())
   WHERE o.order_key IS NULL OR o.status = 'ready' AND o.expires_at <= lk_now()
      OR NOT EXISTS (SELECT FROM outbox e
                      WHERE e.workspace_id = $1 AND e.order_key = o.order_key AND e.status IN ('queued', 'ready', 'sending')
                        AND e.id <> o.id AND (e.seq < o.seq OR e.status = 'sending'))
   LIMIT $3) found;

-- name: Claim
-- A row that may no longer be sent is ended instead. It waits for no row before it.
WITH due AS MATERIALIZED (
  SELECT c.id, c.becomes, lk_plus(lk_now(), coalesce(CAST(CAST($8 AS jsonb) ->> c.topic AS bigint), $7)) AS until
    FROM jsonb_array_elements_text(CAST($2 AS jsonb)) t (topic)
   CROSS JOIN LATERAL (
     SELECT o.id, o.topic, o.due_at,
            CASE WHEN o.status = 'sending' AND (o.expires_at <= lk_now() OR o.attempts >= o.max_attempts AND NOT CAST($10 AS jsonb) ? o.topic
                   OR CAST($3 AS jsonb) ? o.topic) THEN 'uncertain'
                 WHEN o.expires_at <= lk_now() THEN 'expired'
                 ELSE 'sending' END AS becomes
       FROM outbox o
      WHERE o.workspace_id = $1 AND o.topic = t.topic AND o.status IN ('ready', 'sending') AND o.due_at <= (SELECT lk_now())
        AND (o.order_key IS NULL OR o.status = 'ready' AND o.expires_at <= lk_now()
          OR NOT EXISTS (SELECT FROM outbox e
                          WHERE e.workspace_id = $1 AND e.order_key = o.order_key AND e.status IN ('queued', 'ready', 'sending')
                            AND e.id <> o.id AND (e.seq < o.seq OR e.status = 'sending')))
        AND NOT (CAST($9 AS jsonb) ? coalesce(o.receiver, o.topic))
      ORDER BY o.due_at, o.id
      LIMIT $4
        FOR UPDATE OF o SKIP LOCKED) c
   ORDER BY c.due_at, c.id
   LIMIT $4
)
UPDATE outbox o SET
  status = due.becomes,
  attempts = o.attempts + CASE due.becomes WHEN 'sending' THEN 1 ELSE 0 END,
  due_at = CASE due.becomes WHEN 'sending' THEN due.until ELSE o.due_at END,
  due_again = false,
  claimed_by = CASE due.becomes WHEN 'sending' THEN $5 ELSE o.claimed_by END,
  claim_token = CASE due.becomes WHEN 'sending' THEN CAST($6 AS uuid) END,
  claimed_until = CASE due.becomes WHEN 'sending' THEN due.until END,
  last_error = CASE due.becomes
    WHEN 'uncertain' THEN 'a try was cut off: it may have had its effect'
    WHEN 'expired' THEN 'its time was over'
    ELSE o.last_error END,
  updated_at = lk_now()
  FROM due
 WHERE o.workspace_id = $1 AND o.id = due.id
RETURNING o.id, o.kind, o.topic, o.key, o.order_key, o.seq, o.payload, o.format, o.status, o.attempts, o.max_attempts, o.due_at,
          o.claimed_by, o.claimed_until, o.last_error, o.supersede_key, o.expires_at, o.trace_id, o.execution_id,
          o.created_at, o.updated_at, o.sent_at, o.receiver;

-- name: End
SELECT 'ended' FROM lk_outbox_end($1, $2, $3, $4, $5, $6, $7);

-- name: EnqueueAll
INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, format, status, max_attempts,
  due_at, expires_at, trace_id, execution_id, receiver, created_at, updated_at)
SELECT CAST($1 AS uuid), r.id, r.kind, r.topic, r.key, r.order_key, r.seq, CAST(r.payload AS jsonb), r.format, r.status, r.max_attempts,
       lk_plus(lk_now(), r.delay), lk_plus(lk_now(), r.ttl), r.trace_id, r.execution_id, r.receiver, lk_now(), lk_now()
  FROM jsonb_to_recordset(CAST($2 AS jsonb)) r (id uuid, kind text, topic text, key text, order_key text, seq bigint, payload text, format smallint,
         status text, max_attempts integer, delay bigint, ttl bigint, trace_id text, execution_id uuid, receiver text)
ON CONFLICT (workspace_id, key) DO NOTHING;

-- name: AllDueIn
-- Rows that others have locked are not waited for.
UPDATE outbox SET due_at = lk_plus(lk_now(), $4), updated_at = lk_now()
 WHERE workspace_id = $1
   AND id IN (SELECT o.id FROM outbox o
               WHERE o.workspace_id = $1 AND o.topic = $2 AND o.status = 'ready' AND o.due_at > lk_plus((SELECT lk_now()), $4)
               ORDER BY o.due_at
               LIMIT $3 FOR UPDATE SKIP LOCKED);

-- name: Rouse
-- One that has ended is ready again, a kick also if its last attempt was cut off. One that is not claimed has all
-- its attempts again.
UPDATE outbox SET
  status = CASE status WHEN 'sending' THEN status ELSE 'ready' END,
  attempts = CASE status WHEN 'sending' THEN attempts ELSE 0 END,
  due_at = CASE status WHEN 'sending' THEN due_at ELSE lk_now() END, due_again = (status = 'sending'),
  sent_at = NULL, updated_at = CASE status WHEN 'sending' THEN updated_at ELSE lk_now() END
 WHERE workspace_id = $1 AND key = ANY (ARRAY(SELECT jsonb_array_elements_text(CAST($2 AS jsonb))))
   AND (status IN ('ready', 'sending', 'sent', 'failed', 'superseded') OR status = 'uncertain' AND kind = 'kick');
