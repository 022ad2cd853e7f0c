-- name: Get
SELECT id, url, events, description, challenge, enabled, disabled_reason, failures, failing_since, CASE WHEN old_until > lk_now() THEN old_until END,
       version, created_by, created_at, updated_at, sealed, CASE WHEN old_until > lk_now() THEN sealed_old END
  FROM webhook_endpoints
 WHERE workspace_id = $1 AND id = $2;

-- name: List
SELECT id, url, events, description, challenge, enabled, disabled_reason, failures, failing_since, CASE WHEN old_until > lk_now() THEN old_until END,
       version, created_by, created_at, updated_at, sealed, CASE WHEN old_until > lk_now() THEN sealed_old END
  FROM webhook_endpoints
 WHERE workspace_id = $1 AND (created_at, id) < ($2, $3)
 ORDER BY created_at DESC, id DESC
 LIMIT $4;

-- name: Count
SELECT count(*) FROM webhook_endpoints WHERE workspace_id = $1;

-- name: Insert
INSERT INTO webhook_endpoints (workspace_id, id, url, events, description, challenge, enabled, sealed, created_by, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, n.at, n.at
  FROM (SELECT lk_now() AS at) n
RETURNING id, url, events, description, challenge, enabled, disabled_reason, failures, failing_since, CASE WHEN old_until > lk_now() THEN old_until END,
          version, created_by, created_at, updated_at, sealed, CASE WHEN old_until > lk_now() THEN sealed_old END;

-- name: Update
-- Only the version that was read. One that is enabled begins anew.
UPDATE webhook_endpoints
   SET url = $4, events = $5, description = $6, challenge = $7, enabled = $8, version = version + 1, updated_at = lk_now(),
       disabled_reason = CASE WHEN NOT $8 THEN disabled_reason END,
       failures = CASE WHEN enabled OR NOT $8 THEN failures ELSE 0 END,
       failing_since = CASE WHEN enabled OR NOT $8 THEN failing_since END
 WHERE workspace_id = $1 AND id = $2 AND version = $3
RETURNING id, url, events, description, challenge, enabled, disabled_reason, failures, failing_since, CASE WHEN old_until > lk_now() THEN old_until END,
          version, created_by, created_at, updated_at, sealed, CASE WHEN old_until > lk_now() THEN sealed_old END;

-- name: Delete
DELETE FROM webhook_endpoints WHERE workspace_id = $1 AND id = $2;

-- name: Rotate
-- What was the secret stays valid for $4 milliseconds.
UPDATE webhook_endpoints
   SET sealed = $3, sealed_old = sealed, old_until = lk_plus(lk_now(), $4), version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2
RETURNING id, url, events, description, challenge, enabled, disabled_reason, failures, failing_since, CASE WHEN old_until > lk_now() THEN old_until END,
          version, created_by, created_at, updated_at, sealed, CASE WHEN old_until > lk_now() THEN sealed_old END;

-- name: Sealed
SELECT id, sealed, CASE WHEN old_until > lk_now() THEN sealed_old END FROM webhook_endpoints WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: Reseal
-- Only what was read is replaced. What was the secret is cleared when its time is over.
UPDATE webhook_endpoints SET sealed = $3, sealed_old = $5, old_until = CASE WHEN CAST($5 AS bytea) IS NOT NULL THEN old_until END
 WHERE workspace_id = $1 AND id = $2 AND sealed = $4
   AND (sealed_old = $6 OR CAST($6 AS bytea) IS NULL AND (sealed_old IS NULL OR old_until <= lk_now()));

-- name: Tried
-- What is known of the attempts of a row: the first, the number of the last, and the time.
SELECT min(created_at), coalesce(max(attempt), 0), lk_now() FROM deliveries WHERE workspace_id = $1 AND outbox_id = $2;

-- name: Record
INSERT INTO deliveries (workspace_id, id, endpoint_id, outbox_id, webhook_id, event, subject, attempt, status, status_code, error, duration_ms,
  next_at, body, trace_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, lk_plus(lk_now(), $13), $14, $15, lk_now());

-- name: Accepted
UPDATE webhook_endpoints SET failures = 0, failing_since = NULL WHERE workspace_id = $1 AND id = $2 AND failing_since IS NOT NULL;

-- name: Refused
UPDATE webhook_endpoints SET failures = failures + 1, failing_since = coalesce(failing_since, lk_now()) WHERE workspace_id = $1 AND id = $2;

-- name: Disable
UPDATE webhook_endpoints SET enabled = false, disabled_reason = $3, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND enabled;

-- name: DisableUseless
-- Unless it has accepted something since the first attempt of the row.
UPDATE webhook_endpoints SET enabled = false, disabled_reason = $3, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND enabled
   AND NOT EXISTS (SELECT 1 FROM deliveries d
                    WHERE d.workspace_id = $1 AND d.endpoint_id = $2 AND d.status = 'delivered'
                      AND d.created_at >= (SELECT min(f.created_at) FROM deliveries f WHERE f.workspace_id = $1 AND f.outbox_id = $4));

-- name: Delivery
SELECT id, endpoint_id, outbox_id, webhook_id, event, subject, attempt, status, status_code, error, duration_ms, next_at, body, trace_id, created_at
  FROM deliveries
 WHERE workspace_id = $1 AND id = $2;

-- name: Deliveries
-- Without the bodies.
SELECT id, endpoint_id, outbox_id, webhook_id, event, subject, attempt, status, status_code, error, duration_ms, next_at, '', trace_id, created_at
  FROM deliveries
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR status = $2)
   AND (CAST($3 AS text) IS NULL OR event = $3)
   AND (created_at, id) < ($4, $5)
 ORDER BY created_at DESC, id DESC
 LIMIT $6;

-- name: DeliveriesTo
-- Those to one endpoint, by its index.
SELECT id, endpoint_id, outbox_id, webhook_id, event, subject, attempt, status, status_code, error, duration_ms, next_at, '', trace_id, created_at
  FROM deliveries
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR status = $2)
   AND (CAST($3 AS text) IS NULL OR event = $3)
   AND (created_at, id) < ($4, $5)
   AND endpoint_id = $7
 ORDER BY created_at DESC, id DESC
 LIMIT $6;
