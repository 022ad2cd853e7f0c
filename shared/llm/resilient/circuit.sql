-- name: Look
SELECT provider, model, state, failures, last_class, opened_at, retry_at, lk_now()
  FROM provider_circuits
 WHERE workspace_id = $1 AND provider = $2 AND model = $3;

-- name: List
SELECT provider, model, state, failures, last_class, opened_at, retry_at, lk_now()
  FROM provider_circuits
 WHERE workspace_id = $1 AND state <> 'closed'
 ORDER BY provider, model
 LIMIT $2;

-- name: Ensure
INSERT INTO provider_circuits (workspace_id, provider, model, state, updated_at)
VALUES ($1, $2, $3, 'closed', lk_now())
ON CONFLICT (workspace_id, provider, model) DO NOTHING;

-- name: Count
-- Failures are consecutive only within the window: a success between them may not have been stored.
UPDATE provider_circuits SET
  failures = CASE WHEN lk_plus(updated_at, $5) > lk_now() THEN failures + 1 ELSE 1 END,
  last_class = $4, updated_at = lk_now()
 WHERE workspace_id = $1 AND provider = $2 AND model = $3 AND state <> 'paused';

-- name: Trip
UPDATE provider_circuits SET state = 'open', opened_at = lk_now(),
  cooldown_ms = CASE WHEN state = 'closed' OR cooldown_ms * 2 < $5 THEN $5 WHEN cooldown_ms * 2 > $6 THEN $6 ELSE cooldown_ms * 2 END,
  retry_at = lk_plus(lk_now(),
             CASE WHEN state = 'closed' OR cooldown_ms * 2 < $5 THEN $5 WHEN cooldown_ms * 2 > $6 THEN $6 ELSE cooldown_ms * 2 END)
 WHERE workspace_id = $1 AND provider = $2 AND model = $3 AND (state = 'half_open' OR state = 'closed' AND failures >= $4);

-- name: Pause
UPDATE provider_circuits SET state = 'paused', failures = failures + 1, last_class = $4, cooldown_ms = $5,
  opened_at = lk_now(), retry_at = lk_plus(lk_now(), $5), updated_at = lk_now()
 WHERE workspace_id = $1 AND provider = $2 AND model = $3 AND state <> 'paused';

-- name: Close
UPDATE provider_circuits SET state = 'closed', failures = 0, cooldown_ms = 0, opened_at = NULL, retry_at = NULL, updated_at = lk_now()
 WHERE workspace_id = $1 AND provider = $2 AND model = $3 AND (state <> 'closed' OR failures > 0);

-- name: Claim
-- Of several concurrent callers, one gets the probe. The others find the row changed.
UPDATE provider_circuits SET state = 'half_open', retry_at = lk_plus(lk_now(), $4), updated_at = lk_now()
 WHERE workspace_id = $1 AND provider = $2 AND model = $3 AND state <> 'closed' AND retry_at <= lk_now();

-- name: GiveBack
UPDATE provider_circuits SET state = CASE WHEN last_class IN ('authentication', 'billing') THEN 'paused' ELSE 'open' END,
  retry_at = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND provider = $2 AND model = $3 AND state = 'half_open';
