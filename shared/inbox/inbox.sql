-- name: GetSource
SELECT id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
       github, catch_up, rejected, rejected_at, version, created_by, created_at, updated_at
  FROM webhook_sources
 WHERE workspace_id = $1 AND (id = $2 OR name = $3);

-- name: ListSources
SELECT id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
       github, catch_up, rejected, rejected_at, version, created_by, created_at, updated_at
  FROM webhook_sources
 WHERE workspace_id = $1 AND name > $2
 ORDER BY name
 LIMIT $3;

-- name: CountSources
SELECT count(*) FROM webhook_sources WHERE workspace_id = $1;

-- name: InsertSource
INSERT INTO webhook_sources (workspace_id, id, name, kind, header, encoding, prefix, id_path, rules, enabled, sealed, created_by, github, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, n.at, n.at
  FROM (SELECT lk_now() AS at) n
RETURNING id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
          github, catch_up, rejected, rejected_at, version, created_by, created_at, updated_at;

-- name: UpdateSource
-- Only the version that was read.
UPDATE webhook_sources
   SET name = $4, header = $5, encoding = $6, prefix = $7, id_path = $8, rules = $9, enabled = $10, version = version + 1, updated_at = lk_now(),
       github = $11, catch_up = CASE WHEN github = $11 THEN catch_up END
 WHERE workspace_id = $1 AND id = $2 AND version = $3
RETURNING id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
          github, catch_up, rejected, rejected_at, version, created_by, created_at, updated_at;

-- name: DeleteSource
DELETE FROM webhook_sources WHERE workspace_id = $1 AND id = $2;

-- name: RotateSource
-- What was the secret stays valid for $4 milliseconds.
UPDATE webhook_sources
   SET sealed = $3, sealed_old = sealed, old_until = lk_plus(lk_now(), $4), version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2
RETURNING id, name, kind, header, encoding, prefix, id_path, rules, enabled, CASE WHEN old_until > lk_now() THEN old_until END,
          github, catch_up, rejected, rejected_at, version, created_by, created_at, updated_at;

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
INSERT INTO inbox AS i (workspace_id, id, source_id, source, delivery_id, event, headers, body, digest, effect, trace_id, received_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, false, $10, lk_now(), lk_now())
ON CONFLICT (workspace_id, source_id, delivery_id) DO UPDATE SET
  duplicates = i.duplicates + 1, conflicts = i.conflicts + CASE WHEN i.digest <> excluded.digest THEN 1 ELSE 0 END
RETURNING id, digest;

-- name: Kick
-- The row of the outbox by which the work on a delivery begins. A duplicate, whose id was not stored, adds none.
INSERT INTO outbox (workspace_id, id, kind, topic, key, payload, format, status, max_attempts, due_at, trace_id, receiver, created_at, updated_at)
SELECT workspace_id, $3, $4, $5, $6, $7, 1, 'ready', $8, lk_now(), trace_id, $9, lk_now(), lk_now()
  FROM inbox
 WHERE workspace_id = $1 AND id = $2
ON CONFLICT (workspace_id, key) DO NOTHING;

-- name: Lost
-- Open deliveries that nothing goes on with: their rows of the outbox have ended, or are gone.
SELECT i.id, i.source_id, i.trace_id, i.kicks
  FROM inbox i
 WHERE i.workspace_id = $1 AND i.status IN ('received', 'working', 'failed') AND i.kicks <= $2
   AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = $1 AND o.key = 'inbox:' || CAST(i.id AS text) AND o.status IN ('ready', 'sending'))
 ORDER BY i.id
 LIMIT $3;

-- name: Rekick
-- Only the kicks that were read: of two sweeps at once, one counts.
UPDATE inbox SET kicks = kicks + 1 WHERE workspace_id = $1 AND id = $2 AND kicks = $3 AND status IN ('received', 'working', 'failed');

-- name: GiveUp
-- One that was begun stays open: its execution goes on when a person has it redelivered. One that a person
-- has had redelivered since its kicks were read is left alone.
UPDATE inbox
   SET kicks = kicks + 1, error = CASE status WHEN 'working' THEN $5 ELSE $4 END, next_at = NULL, updated_at = lk_now(),
       status = CASE status WHEN 'working' THEN 'working' ELSE 'parked' END, ended_at = CASE WHEN status <> 'working' THEN lk_now() END
 WHERE workspace_id = $1 AND id = $2 AND kicks = $3 AND status IN ('received', 'working', 'failed');

-- name: Get
SELECT id, source_id, source, delivery_id, event, headers, body, digest, status, attempts, next_at, action, error,
       duplicates, conflicts, replays, asked, effect, trace_id, execution_id, received_at, updated_at, ended_at, lk_now()
  FROM inbox
 WHERE workspace_id = $1 AND id = $2;

-- name: List
-- Without the bodies.
SELECT id, source_id, source, delivery_id, event, headers, NULL, digest, status, attempts, next_at, action, error,
       duplicates, conflicts, replays, asked, effect, trace_id, execution_id, received_at, updated_at, ended_at, lk_now()
  FROM inbox
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR status = $2)
   AND (CAST($3 AS text) IS NULL OR CAST(source_id AS text) = $3)
   AND (CAST($7 AS text) IS NULL OR event = $7)
   AND (received_at, id) < ($4, $5)
 ORDER BY received_at DESC, id DESC
 LIMIT $6;

-- name: Begin
-- The caller holds the delivery's lane. One that is worked on, and has no open execution, was left by a process that ended.
-- Such a one may have had its effect.
UPDATE inbox
   SET status = 'working', attempts = attempts + 1, next_at = NULL, action = $3, execution_id = $4, error = NULL, updated_at = lk_now(),
       asked = coalesce($5, asked), effect = effect OR status = 'working'
 WHERE workspace_id = $1 AND id = $2 AND (status IN ('received', 'working') OR status = 'failed' AND next_at <= lk_now())
RETURNING attempts;

-- name: End
UPDATE inbox
   SET status = $3, error = $4, effect = effect OR $6, next_at = lk_plus(lk_now(), $5), ended_at = CASE WHEN $3 IN ('done', 'parked') THEN lk_now() END, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'working';

-- name: Replay
-- One that is worked on stays. Effects get a new key where all is done, where no try had one, or where a person wants another ($3).
UPDATE inbox
   SET status = 'received', attempts = 0, kicks = 0, next_at = NULL, ended_at = NULL, error = NULL, updated_at = lk_now(),
       replays = replays + CASE WHEN status = 'done' OR status = 'parked' AND NOT effect OR $3 THEN 1 ELSE 0 END,
       asked = CASE WHEN status = 'done' OR status = 'parked' AND NOT effect OR $3 THEN NULL ELSE asked END,
       effect = effect AND NOT (status = 'done' OR status = 'parked' AND NOT effect OR $3)
 WHERE workspace_id = $1 AND id = $2 AND status <> 'working';

-- name: Kicked
-- Whether a delivery goes on by itself.
SELECT 1 FROM outbox WHERE workspace_id = $1 AND key = $2 AND status IN ('ready', 'sending');

-- name: Unkick
-- One that is worked on is looked for again, and is not given up any more.
UPDATE inbox SET kicks = 0, error = NULL WHERE workspace_id = $1 AND id = $2;

-- name: Now
SELECT lk_now() FROM webhook_sources WHERE workspace_id = $1 AND id = $2;

-- name: Caught
UPDATE webhook_sources SET catch_up = $3 WHERE workspace_id = $1 AND id = $2 AND github = $4;

-- name: LostSources
-- Sources that catch up, and that the outbox has no row for.
SELECT s.id FROM webhook_sources s
 WHERE s.workspace_id = $1 AND s.github IS NOT NULL AND s.enabled
   AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = $1 AND o.key = 'catch_up:' || CAST(s.id AS text) AND o.status IN ('ready', 'sending'));

-- name: Turns
-- Counts the turns of webhooks that have not come to their end, to $2.
SELECT count(*) FROM (
  SELECT 1 FROM executions e
   WHERE e.workspace_id = $1 AND e.surface = 'wh' AND e.status IN ('running', 'parked') AND e.subject = 'execution:' || CAST(e.id AS text)
   LIMIT $2) found;

-- name: Park
UPDATE inbox SET status = 'parked', error = $3, next_at = NULL, ended_at = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status IN ('received', 'failed');
