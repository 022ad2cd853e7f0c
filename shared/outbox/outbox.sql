-- name: Enqueue
INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, format, status, max_attempts,
  due_at, supersede_key, expires_at, trace_id, execution_id, receiver, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, lk_plus(lk_now(), $12), $13, lk_plus(lk_now(), $14), $15, $16, $17, lk_now(), lk_now())
ON CONFLICT (workspace_id, key) DO NOTHING;

-- name: Revive
-- A row that begins anew is new: a purge is due by the age of the oldest row that has ended.
INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, format, status, max_attempts,
  due_at, supersede_key, expires_at, trace_id, execution_id, receiver, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, lk_plus(lk_now(), $12), $13, lk_plus(lk_now(), $14), $15, $16, $17, lk_now(), lk_now())
ON CONFLICT (workspace_id, key) DO UPDATE SET
  status = excluded.status, attempts = 0, due_at = excluded.due_at, sent_at = NULL, trace_id = excluded.trace_id,
  created_at = excluded.created_at, updated_at = lk_now()
 WHERE outbox.status NOT IN ('queued', 'ready', 'sending');

-- name: ReviveNow
-- Revive and DueNow in one.
INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, format, status, max_attempts,
  due_at, supersede_key, expires_at, trace_id, execution_id, receiver, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, lk_plus(lk_now(), $12), $13, lk_plus(lk_now(), $14), $15, $16, $17, lk_now(), lk_now())
ON CONFLICT (workspace_id, key) DO UPDATE SET
  status = CASE WHEN outbox.status IN ('ready', 'sending') THEN outbox.status ELSE excluded.status END,
  attempts = CASE WHEN outbox.status IN ('ready', 'sending') THEN outbox.attempts ELSE 0 END,
  due_at = CASE outbox.status WHEN 'sending' THEN outbox.due_at ELSE excluded.due_at END, due_again = (outbox.status = 'sending'), sent_at = NULL,
  trace_id = CASE WHEN outbox.status IN ('ready', 'sending') THEN outbox.trace_id ELSE excluded.trace_id END,
  created_at = CASE WHEN outbox.status IN ('ready', 'sending') THEN outbox.created_at ELSE excluded.created_at END,
  updated_at = CASE outbox.status WHEN 'sending' THEN outbox.updated_at ELSE lk_now() END
 WHERE outbox.status NOT IN ('queued', 'ready') OR outbox.status = 'ready' AND outbox.due_at > excluded.due_at;

-- name: Supersede
-- A row that was not added, because its key exists, supersedes nothing.
UPDATE outbox SET status = 'superseded', updated_at = lk_now()
 WHERE workspace_id = $1 AND supersede_key = $3 AND status IN ('queued', 'ready') AND id <> $2
   AND EXISTS (SELECT 1 FROM outbox n WHERE n.workspace_id = $1 AND n.id = $2);

-- name: Withdraw
UPDATE outbox SET status = 'superseded', updated_at = lk_now()
 WHERE workspace_id = $1 AND key = $2 AND status IN ('queued', 'ready');

-- name: DueNow
UPDATE outbox SET due_at = CASE status WHEN 'ready' THEN lk_now() ELSE due_at END, due_again = (status = 'sending'),
       updated_at = CASE status WHEN 'ready' THEN lk_now() ELSE updated_at END
 WHERE workspace_id = $1 AND key = $2 AND (status = 'ready' AND due_at > lk_now() OR status = 'sending');

-- name: Began
UPDATE outbox SET attempts = 0 WHERE workspace_id = $1 AND key = $2 AND status IN ('ready', 'sending') AND attempts > 0;

-- name: DueAnew
UPDATE outbox SET due_at = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND topic = $2 AND status = 'ready' AND due_at <= (SELECT lk_now());

-- name: Defer
UPDATE outbox SET due_at = lk_plus(lk_now(), $4)
 WHERE workspace_id = $1 AND order_key = $2 AND id <> $3 AND status = 'ready' AND due_at < lk_plus(lk_now(), $4);

-- name: GoOn
UPDATE outbox SET due_at = lk_now() WHERE workspace_id = $1 AND order_key = $2 AND status = 'ready' AND due_at > lk_now();

-- name: Claimants
SELECT DISTINCT claimed_by FROM outbox
 WHERE workspace_id = $1 AND status = 'sending' AND due_at > (SELECT lk_now()) AND claimed_by IS NOT NULL;

-- name: GiveBack
-- The rows stay claimed until the next claim, which decides whether an attempt that was cut off may have had its effect.
UPDATE outbox SET due_at = lk_now(), claimed_until = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND claimed_by = $2 AND status = 'sending' AND due_at > lk_now()
RETURNING id;

-- name: GiveBackClaim
-- The same for one claim.
UPDATE outbox SET due_at = lk_now(), claimed_until = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND claim_token = $2 AND status = 'sending' AND due_at > lk_now();

-- name: GiveBackRow
-- The same for one row of a claim.
UPDATE outbox SET due_at = lk_now(), claimed_until = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND claim_token = $2 AND id = $3 AND status = 'sending' AND due_at > lk_now();

-- name: Resend
UPDATE outbox SET status = 'queued', seq = $4, attempts = 0, due_at = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND order_key = $3 AND status IN ('failed', 'uncertain')
   AND (expires_at IS NULL OR expires_at > lk_now());

-- name: Get
SELECT id, kind, topic, key, order_key, seq, payload, format, status, attempts, max_attempts, due_at,
       claimed_by, claimed_until, last_error, supersede_key, expires_at, trace_id, execution_id, created_at, updated_at, sent_at, receiver
  FROM outbox
 WHERE workspace_id = $1 AND id = $2;

-- name: List
SELECT id, kind, topic, key, order_key, seq, payload, format, status, attempts, max_attempts, due_at,
       claimed_by, claimed_until, last_error, supersede_key, expires_at, trace_id, execution_id, created_at, updated_at, sent_at, receiver
  FROM outbox
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR status = $2)
   AND (CAST($3 AS text) IS NULL OR topic = $3)
   AND (CAST($4 AS text) IS NULL OR order_key = $4)
   AND (created_at, id) < ($5, $6)
 ORDER BY created_at DESC, id DESC
 LIMIT $7;
