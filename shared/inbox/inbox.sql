-- name: GetSource
SELECT id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
       rejected, rejected_at, version, created_by, created_at, updated_at
  FROM webhook_sources
 WHERE workspace_id = $1 AND (id = $2 OR name = $3);

-- name: ListSources
SELECT id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
       rejected, rejected_at, version, created_by, created_at, updated_at
  FROM webhook_sources
 WHERE workspace_id = $1 AND name > $2
 ORDER BY name
 LIMIT $3;

-- name: CountSources
SELECT count(*) FROM webhook_sources WHERE workspace_id = $1;

-- name: InsertSource
INSERT INTO webhook_sources (workspace_id, id, name, kind, header, encoding, prefix, id_path, rules, enabled, sealed, created_by, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, lk_now(), lk_now())
RETURNING id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
          rejected, rejected_at, version, created_by, created_at, updated_at;

-- name: UpdateSource
-- Only the version that was read.
UPDATE webhook_sources
   SET name = $4, header = $5, encoding = $6, prefix = $7, id_path = $8, rules = $9, enabled = $10, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND version = $3
RETURNING id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
          rejected, rejected_at, version, created_by, created_at, updated_at;

-- name: DeleteSource
DELETE FROM webhook_sources WHERE workspace_id = $1 AND id = $2;

-- name: RotateSource
-- What was the secret stays valid for $4 milliseconds.
UPDATE webhook_sources
   SET sealed = $3, sealed_old = sealed, old_until = lk_plus(lk_now(), $4), version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2
RETURNING id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
          rejected, rejected_at, version, created_by, created_at, updated_at;

-- name: SealedSources
SELECT id, sealed, CASE WHEN old_until > lk_now() THEN sealed_old END FROM webhook_sources WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: ResealSource
-- Only what was read is replaced. What was the secret is cleared when its time is over.
UPDATE webhook_sources SET sealed = $3, sealed_old = $5, old_until = CASE WHEN CAST($5 AS bytea) IS NOT NULL THEN old_until END
 WHERE workspace_id = $1 AND id = $2 AND sealed = $4
   AND (sealed_old = $6 OR CAST($6 AS bytea) IS NULL AND (sealed_old IS NULL OR old_until <= lk_now()));

-- name: Reject
UPDATE webhook_sources SET rejected = rejected + 1, rejected_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: Receive
-- A delivery that is there already is only counted.
INSERT INTO inbox AS i (workspace_id, id, source_id, source, delivery_id, event, headers, body, digest, trace_id, received_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, lk_now(), lk_now())
ON CONFLICT (workspace_id, source_id, delivery_id) DO UPDATE SET
  duplicates = i.duplicates + 1, conflicts = i.conflicts + CASE WHEN i.digest <> excluded.digest THEN 1 ELSE 0 END
RETURNING id, digest;

-- name: Get
SELECT id, source_id, source, delivery_id, event, headers, body, digest, status, attempts, next_at, action, error,
       duplicates, conflicts, replays, trace_id, execution_id, received_at, updated_at, ended_at, lk_now()
  FROM inbox
 WHERE workspace_id = $1 AND id = $2;

-- name: List
-- Without the bodies.
SELECT id, source_id, source, delivery_id, event, headers, NULL, digest, status, attempts, next_at, action, error,
       duplicates, conflicts, replays, trace_id, execution_id, received_at, updated_at, ended_at, lk_now()
  FROM inbox
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR status = $2)
   AND (CAST($3 AS text) IS NULL OR CAST(source_id AS text) = $3)
   AND (received_at, id) < ($4, $5)
 ORDER BY received_at DESC, id DESC
 LIMIT $6;

-- name: Begin
-- The caller holds the delivery's lane. One that is worked on, and has no open execution, was left by a process that ended.
UPDATE inbox SET status = 'working', attempts = attempts + 1, next_at = NULL, action = $3, execution_id = $4, error = NULL, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND (status IN ('received', 'working') OR status = 'failed' AND next_at <= lk_now())
RETURNING attempts;

-- name: End
UPDATE inbox
   SET status = $3, error = $4, next_at = lk_plus(lk_now(), $5), ended_at = CASE WHEN $3 IN ('done', 'parked') THEN lk_now() END, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'working';

-- name: Replay
-- One that is worked on stays.
UPDATE inbox
   SET status = 'received', attempts = 0, next_at = NULL, ended_at = NULL, error = NULL,
       replays = replays + CASE status WHEN 'done' THEN 1 ELSE 0 END, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status <> 'working';

-- name: Kicked
-- Whether a delivery goes on by itself.
SELECT 1 FROM outbox WHERE workspace_id = $1 AND topic = $3 AND status IN ('ready', 'sending') AND payload ->> 'delivery' = $2 LIMIT 1;

-- name: Park
UPDATE inbox SET status = 'parked', error = $3, next_at = NULL, ended_at = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status IN ('received', 'failed');
