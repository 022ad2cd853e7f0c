-- name: Get
SELECT id, name, skill, input, cron, time_zone, event, enabled, disabled_by, disabled_reason, disabled_at, next_run_at,
       last_run_at, last_status, last_trace_id, version, created_by, created_at, updated_at, trust = 'outside', lk_now()
  FROM agent_automations
 WHERE workspace_id = $1 AND (id = $2 OR name = $3);

-- name: List
SELECT id, name, skill, input, cron, time_zone, event, enabled, disabled_by, disabled_reason, disabled_at, next_run_at,
       last_run_at, last_status, last_trace_id, version, created_by, created_at, updated_at, trust = 'outside', lk_now()
  FROM agent_automations
 WHERE workspace_id = $1 AND name > $2
   AND (CAST($3 AS text) IS NULL OR skill = $3)
   AND (CAST($4 AS text) IS NULL OR event = $4)
   AND (CAST($5 AS boolean) IS NULL OR enabled = $5)
 ORDER BY name
 LIMIT $6;

-- name: Now
SELECT lk_now(), (SELECT count(*) FROM agent_automations WHERE workspace_id = $1);

-- name: Insert
-- Of its events only those count that come after it. It starts behind what has settled: an event of a transaction that is
-- open still may have a lower xid than one that is there already. What was recorded before the automation is told by the time.
INSERT INTO agent_automations (workspace_id, id, name, skill, input, cron, time_zone, event, enabled, disabled_by, disabled_reason, disabled_at,
  next_run_at, trust, event_xid, event_id, created_by, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, CASE WHEN $9 THEN NULL ELSE lk_now() END, $12,
  CASE WHEN $13 THEN 'outside' ELSE 'operator' END,
  CASE WHEN CAST($8 AS text) IS NULL THEN NULL
       ELSE coalesce((SELECT xid FROM events WHERE workspace_id = $1 AND kind = $8 AND xid < lk_settled() ORDER BY xid DESC, id DESC LIMIT 1), 0) END,
  CASE WHEN CAST($8 AS text) IS NULL THEN NULL
       ELSE coalesce((SELECT id FROM events WHERE workspace_id = $1 AND kind = $8 AND xid < lk_settled() ORDER BY xid DESC, id DESC LIMIT 1), 0) END,
  $14, lk_now(), lk_now())
RETURNING id, name, skill, input, cron, time_zone, event, enabled, disabled_by, disabled_reason, disabled_at, next_run_at,
          last_run_at, last_status, last_trace_id, version, created_by, created_at, updated_at, trust = 'outside', lk_now();

-- name: Update
-- Of the version that was read. Events from before it was enabled, or waited for another, don't count, but for those that
-- have not settled by then.
UPDATE agent_automations AS a
   SET name = $4, skill = $5, input = $6, cron = $7, time_zone = $8, event = $9, enabled = $10, disabled_by = $11, disabled_reason = $12,
       disabled_at = CASE WHEN $10 THEN NULL WHEN enabled THEN lk_now() ELSE disabled_at END, next_run_at = $13,
       trust = CASE WHEN $14 THEN 'outside' ELSE 'operator' END,
       event_xid = CASE WHEN CAST($9 AS text) IS NULL THEN NULL WHEN a.event = $9 AND a.enabled THEN event_xid
                        ELSE coalesce((SELECT xid FROM events WHERE workspace_id = $1 AND kind = $9 AND xid < lk_settled() ORDER BY xid DESC, id DESC LIMIT 1), 0) END,
       event_id  = CASE WHEN CAST($9 AS text) IS NULL THEN NULL WHEN a.event = $9 AND a.enabled THEN event_id
                        ELSE coalesce((SELECT id FROM events WHERE workspace_id = $1 AND kind = $9 AND xid < lk_settled() ORDER BY xid DESC, id DESC LIMIT 1), 0) END,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND version = $3
RETURNING id, name, skill, input, cron, time_zone, event, enabled, disabled_by, disabled_reason, disabled_at, next_run_at,
          last_run_at, last_status, last_trace_id, version, created_by, created_at, updated_at, trust = 'outside', lk_now();

-- name: Delete
DELETE FROM agent_automations WHERE workspace_id = $1 AND id = $2;

-- name: Uncreate
-- As it was created: it has not run, and nobody has changed it.
DELETE FROM agent_automations WHERE workspace_id = $1 AND id = $2 AND version = 1 AND last_run_at IS NULL;

-- name: Due
-- Those whose time has come, and those whose event has happened. A position that this cluster has not come to yet is
-- another's, from before a restore: it counts for nothing.
SELECT id, name FROM (
  SELECT id, name, next_run_at AS since
    FROM agent_automations
   WHERE workspace_id = $1 AND next_run_at IS NOT NULL AND next_run_at <= (SELECT lk_now())
  UNION ALL
  SELECT a.id, a.name, (SELECT e.created_at FROM events e
                         WHERE e.workspace_id = $1 AND e.kind = a.event AND e.xid < (SELECT lk_settled()) AND e.created_at > a.created_at
                           AND (e.xid, e.id) > (CASE WHEN a.event_xid >= (SELECT lk_begun()) THEN 0 ELSE a.event_xid END, a.event_id)
                         ORDER BY e.xid, e.id LIMIT 1)
    FROM agent_automations a
   WHERE a.workspace_id = $1 AND a.event IS NOT NULL AND a.enabled
) AS due
 WHERE since IS NOT NULL
 ORDER BY since, id
 LIMIT $2;

-- name: Lock
-- The row itself, changed by nothing, so that what is decided next stands.
UPDATE agent_automations SET updated_at = updated_at WHERE workspace_id = $1 AND id = $2;

-- name: Claimed
SELECT name, skill, input, trust = 'outside', cron, time_zone, event, enabled, next_run_at, event_xid, event_id, created_at, lk_now(), lk_begun()
  FROM agent_automations
 WHERE workspace_id = $1 AND id = $2;

-- name: Happened
-- The events of a kind behind a position and after a time: how many, up to a thousand, and the latest.
SELECT (SELECT count(*) FROM (SELECT 1 FROM events WHERE workspace_id = $1 AND kind = $2 AND (xid, id) > ($3, $4) AND xid < lk_settled() AND created_at > $5 LIMIT 1000) AS counted),
       xid, id, subject, trace_id, data, created_at
  FROM events
 WHERE workspace_id = $1 AND kind = $2 AND (xid, id) > ($3, $4) AND xid < lk_settled() AND created_at > $5
 ORDER BY xid DESC, id DESC
 LIMIT 1;

-- name: Advance
UPDATE agent_automations SET next_run_at = $3, event_xid = $4, event_id = $5 WHERE workspace_id = $1 AND id = $2;

-- name: Ended
UPDATE agent_automations SET last_run_at = lk_now(), last_status = $3, last_trace_id = $4 WHERE workspace_id = $1 AND id = $2;

-- name: Using
SELECT id, name, skill, input, cron, time_zone, event, enabled, disabled_by, disabled_reason, disabled_at, next_run_at,
       last_run_at, last_status, last_trace_id, version, created_by, created_at, updated_at, trust = 'outside', lk_now()
  FROM agent_automations
 WHERE workspace_id = $1 AND skill = $2 AND enabled
 ORDER BY id
 LIMIT $3;
