-- name: KeptRows
SELECT response_status, response_body FROM idempotency_keys WHERE workspace_id = $1 ORDER BY route;

-- name: CountKeys
SELECT count(*) FROM idempotency_keys WHERE workspace_id = $1;

-- name: LoseAnswers
UPDATE idempotency_keys
   SET status = 'running', claimed_until = lk_plus(created_at, 1), response_status = NULL, response_headers = NULL, response_body = NULL
 WHERE workspace_id = $1;

-- name: HoldKeys
UPDATE idempotency_keys SET claimed_until = lk_plus(lk_now(), 600000) WHERE workspace_id = $1;

-- name: ClaimKeys
UPDATE idempotency_keys SET claimed_until = lk_plus(lk_now(), 900000) WHERE workspace_id = $1;

-- name: DieKeys
UPDATE idempotency_keys
   SET status = 'running', response_status = NULL, response_headers = NULL, response_body = NULL
 WHERE workspace_id = $1;
