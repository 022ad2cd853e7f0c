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
-- Only later events count. The cursor starts at the newest settled event, because an event of a
-- transaction that is still open may get a lower xid than an event that already exists. Events that
-- were recorded before the automation are excluded by their time.
INSERT INTO agent_automations (workspace_id, id, name, skill, input, cron, time_zone, event, enabled, disabled_by, disabled_reason, disabled_at,
  next_run_at, trust, event_xid, event_id, created_by, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, CASE WHEN $9 THEN NULL ELSE n.at END, $12,
  CASE WHEN $13 THEN 'outside' ELSE 'operator' END,
  CASE WHEN CAST($8 AS text) IS NULL THEN NULL
       ELSE coalesce((SELECT xid FROM events WHERE workspace_id = $1 AND kind = $8 AND xid < lk_settled() ORDER BY xid DESC, id DESC LIMIT 1), 0) END,
  CASE WHEN CAST($8 AS text) IS NULL THEN NULL
       ELSE coalesce((SELECT id FROM events WHERE workspace_id = $1 AND kind = $8 AND xid < lk_settled() ORDER BY xid DESC, id DESC LIMIT 1), 0) END,
  $14, n.at, n.at
  FROM (SELECT lk_now() AS at) n
RETURNING id, name, skill, input, cron, time_zone, event, enabled, disabled_by, disabled_reason, disabled_at, next_run_at,
          last_run_at, last_status, last_trace_id, version, created_by, created_at, updated_at, trust = 'outside', lk_now();

-- name: Update
-- Updates only the version that was read. Events from before it was enabled, or from when it had
-- another event kind, don't count, except events that had not settled at this time. An unchanged
-- schedule keeps its next run, which a claim may have moved without a new version.
UPDATE agent_automations AS a
   SET name = $4, skill = $5, input = $6, cron = $7, time_zone = $8, event = $9, enabled = $10, disabled_by = $11, disabled_reason = $12,
       disabled_at = CASE WHEN $10 THEN NULL WHEN enabled THEN lk_now() ELSE disabled_at END,
       next_run_at = CASE WHEN $10 AND a.enabled AND a.cron = $7 AND a.time_zone = $8 THEN a.next_run_at ELSE $13 END,
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
-- Deletes the automation only if it has not run and nobody has changed it.
DELETE FROM agent_automations WHERE workspace_id = $1 AND id = $2 AND version = 1 AND last_run_at IS NULL;

-- name: Due
-- Automations whose time has come, and those whose event has happened. A cursor at an xid that this
-- cluster has not reached comes from another cluster, before a restore. It counts as 0.
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
-- Locks the row without a change, so that the following decision stays valid.
UPDATE agent_automations SET updated_at = updated_at WHERE workspace_id = $1 AND id = $2;

-- name: Claimed
SELECT name, skill, input, trust = 'outside', cron, time_zone, event, enabled, next_run_at, event_xid, event_id, created_at, lk_now(), lk_begun()
  FROM agent_automations
 WHERE workspace_id = $1 AND id = $2;

-- name: Happened
-- The events of a kind after a cursor and after a time: their number, up to 1000, and the latest
-- one.
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

-- name: LockUsing
-- Locks the rows without a change, so that they are read as they are.
UPDATE agent_automations SET updated_at = updated_at WHERE workspace_id = $1 AND skill = $2 AND enabled;

-- name: Using
SELECT id, name, skill, input, cron, time_zone, event, enabled, disabled_by, disabled_reason, disabled_at, next_run_at,
       last_run_at, last_status, last_trace_id, version, created_by, created_at, updated_at, trust = 'outside', lk_now()
  FROM agent_automations
 WHERE workspace_id = $1 AND skill = $2 AND enabled
 ORDER BY id
 LIMIT $3;
