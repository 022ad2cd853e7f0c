-- name: Orphans
-- Executions with status running whose lane nobody holds, that no outbox row continues, and that
-- were unchanged for $2 milliseconds; those of webhooks are gone on with by their deliveries, those of tasks by their attempts. And executions without a lane that were unchanged for their
-- own timeout, or else for $4 milliseconds. The latter exclude parents, whose children come first,
-- and those that were active in a thread since.
SELECT id, subject, silent FROM (
  SELECT e.id, e.subject, false AS silent FROM executions e
   WHERE e.workspace_id = $1 AND e.status = 'running' AND e.surface NOT IN ('hb', 'wk') AND e.subject IS NOT NULL
     AND NOT (e.surface = 'wh' AND e.subject <> 'execution:' || CAST(e.id AS text))
     AND e.updated_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND NOT EXISTS (SELECT 1 FROM agent_locks l WHERE l.workspace_id = $1 AND l.lane = e.subject AND l.expires_at > (SELECT lk_now()))
     AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = $1 AND o.execution_id = e.id AND o.topic = 'execution' AND o.status IN ('ready', 'sending'))
   ORDER BY e.updated_at
   LIMIT $3) AS cut
UNION ALL
SELECT id, subject, silent FROM (
  SELECT e.id, e.subject, true AS silent FROM executions e
   WHERE e.workspace_id = $1 AND e.subject IS NULL AND e.status IN ('running', 'waiting', 'parked')
     AND e.updated_at < lk_plus((SELECT lk_now()), 0 - coalesce(e.timeout_seconds * CAST(1000 AS bigint), CAST($4 AS bigint)))
     AND NOT EXISTS (SELECT 1 FROM executions c WHERE c.workspace_id = $1 AND c.parent_id = e.id AND c.status IN ('running', 'waiting', 'parked'))
     AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.workspace_id = $1 AND t.active_execution_id = e.id
                        AND t.execution_locked_at >= lk_plus((SELECT lk_now()), 0 - coalesce(e.timeout_seconds * CAST(1000 AS bigint), CAST($4 AS bigint))))
   ORDER BY e.updated_at
   LIMIT $5) AS unheard;

-- name: SilentNow
-- Executions without a lane and with a timeout of their own, which were unchanged for that time,
-- together with all executions below them.
SELECT e.id FROM executions e
 WHERE e.workspace_id = $1 AND e.subject IS NULL AND e.status IN ('running', 'waiting', 'parked')
   AND e.updated_at < lk_plus((SELECT lk_now()), 0 - e.timeout_seconds * CAST(1000 AS bigint))
   AND NOT EXISTS (
         WITH RECURSIVE tree (id, status, updated_at) AS (
           SELECT e.id, e.status, e.updated_at
           UNION ALL
           SELECT c.id, c.status, c.updated_at FROM tree p JOIN executions c ON c.workspace_id = $1 AND c.parent_id = p.id)
         SELECT 1 FROM tree d
          WHERE d.status IN ('running', 'waiting', 'parked')
            AND (d.updated_at >= lk_plus((SELECT lk_now()), 0 - e.timeout_seconds * CAST(1000 AS bigint))
              OR EXISTS (SELECT 1 FROM threads t WHERE t.workspace_id = $1 AND t.active_execution_id = d.id
                            AND t.execution_locked_at >= lk_plus((SELECT lk_now()), 0 - e.timeout_seconds * CAST(1000 AS bigint)))))
 ORDER BY e.updated_at
 LIMIT $2;

-- name: Silent
-- Whether an execution, whose row is locked, is still silent. $3 milliseconds apply if it has no
-- timeout of its own.
WITH RECURSIVE tree (id, status, updated_at) AS (
  SELECT id, status, updated_at FROM executions WHERE workspace_id = $1 AND id = $2
  UNION ALL
  SELECT c.id, c.status, c.updated_at FROM tree p JOIN executions c ON c.workspace_id = $1 AND c.parent_id = p.id),
since (at) AS (
  SELECT lk_plus(lk_now(), 0 - coalesce(timeout_seconds * CAST(1000 AS bigint), CAST($3 AS bigint)))
    FROM executions
   WHERE workspace_id = $1 AND id = $2 AND subject IS NULL AND status IN ('running', 'waiting', 'parked'))
SELECT 1 FROM since
 WHERE NOT EXISTS (
         SELECT 1 FROM tree d
          WHERE d.status IN ('running', 'waiting', 'parked')
            AND (d.updated_at >= since.at
              OR EXISTS (SELECT 1 FROM threads t WHERE t.workspace_id = $1 AND t.active_execution_id = d.id AND t.execution_locked_at >= since.at)));

-- name: Lock
-- Locks the row without a change, so that the following decision stays valid.
UPDATE executions SET updated_at = updated_at WHERE workspace_id = $1 AND id = $2;

-- name: Close
-- Repeats the conditions of an orphan. The caller holds the lane.
UPDATE executions SET status = 'failed', error = 'it was cut off, and nobody went on with it', updated_at = lk_now(), ended_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'running' AND updated_at < lk_plus(lk_now(), 0 - CAST($3 AS bigint))
   AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = $1 AND o.execution_id = executions.id AND o.topic = 'execution' AND o.status IN ('ready', 'sending'));
