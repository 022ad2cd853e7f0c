-- name: ClaimKey
-- One of several concurrent requests gets a row. An expired key counts as new. The same request may take over a key whose
-- claim has ended without a result; created_at stays that of the first claim then. Another request may take over a key that
-- was freed.
INSERT INTO idempotency_keys AS k (workspace_id, route, principal, key_hash, request_hash, status, token, claimed_until, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, 'running', $6, lk_plus(lk_now(), $7), lk_now(), lk_plus(lk_now(), $8))
ON CONFLICT (workspace_id, route, principal, key_hash) DO UPDATE SET
  request_hash = excluded.request_hash, status = excluded.status, token = excluded.token, claimed_until = excluded.claimed_until,
  response_status = NULL, response_headers = NULL, response_body = NULL,
  created_at = CASE WHEN k.expires_at > excluded.created_at AND k.request_hash = excluded.request_hash THEN k.created_at ELSE excluded.created_at END,
  expires_at = excluded.expires_at
 WHERE k.expires_at <= excluded.created_at
    OR k.status = 'running' AND k.claimed_until <= excluded.created_at
       AND (k.request_hash = excluded.request_hash OR k.claimed_until <= k.created_at)
RETURNING created_at;

-- name: LookAtKey
SELECT request_hash, status, response_status, response_headers, response_body, created_at, lk_plus(claimed_until, $5) <= lk_now()
  FROM idempotency_keys
 WHERE workspace_id = $1 AND route = $2 AND principal = $3 AND key_hash = $4;

-- name: KeepAnswer
UPDATE idempotency_keys SET status = 'done', response_status = $6, response_headers = $7, response_body = $8
 WHERE workspace_id = $1 AND route = $2 AND principal = $3 AND key_hash = $4 AND token = $5 AND status = 'running';

-- name: FreeKey
-- The row stays: it tells a repeated request when the first one came.
UPDATE idempotency_keys SET claimed_until = created_at
 WHERE workspace_id = $1 AND route = $2 AND principal = $3 AND key_hash = $4 AND token = $5 AND status = 'running';
