-- why: there is one writer, and no DELETE with USING.

-- name: SweepKeys
DELETE FROM idempotency_keys
 WHERE workspace_id = $1
   AND (route, principal, key_hash) IN (SELECT k.route, k.principal, k.key_hash FROM idempotency_keys k
         WHERE k.workspace_id = $1 AND k.expires_at <= (SELECT lk_now()) ORDER BY k.expires_at LIMIT $2);
