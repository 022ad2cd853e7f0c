-- why: what another sweeps already is not waited for; and a subquery with a lock is asked once only where it stands in WITH.

-- name: SweepKeys
WITH old AS MATERIALIZED (
  SELECT route, principal, key_hash
    FROM idempotency_keys
   WHERE workspace_id = $1 AND expires_at <= (SELECT lk_now())
   ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM idempotency_keys k USING old
 WHERE k.workspace_id = $1 AND k.route = old.route AND k.principal = old.principal AND k.key_hash = old.key_hash;
