-- why: row-level security shows one workspace there, and writers work side by side under a time limit; here is one writer.

-- name: Unserved
-- global: the schedule's tick serves every workspace
SELECT w.id
  FROM workspaces w
  LEFT JOIN executions n ON n.workspace_id = w.id AND n.surface = $1 AND n.slot =
       (SELECT max(e.slot) FROM executions e WHERE e.workspace_id = w.id AND e.surface = $1 AND e.slot IS NOT NULL)
 WHERE w.open AND ($4 IS NULL OR n.slot IS NULL OR n.slot < $2 || w.id || ':' || $4
    OR n.slot = $2 || w.id || ':' || $4 AND n.status = 'running'
       AND NOT EXISTS (SELECT 1 FROM agent_locks l
                        WHERE l.workspace_id = w.id AND l.lane = $3 AND l.token IS NOT NULL AND l.expires_at > (SELECT lk_now())))
 ORDER BY EXISTS (SELECT 1 FROM kill_switches k
                   WHERE k.workspace_id = w.id AND k.released_at IS NULL
                     AND (k.scope = 'workspace' OR k.scope = 'agent' AND k.target = 'flowpilot')),
          substr(n.slot, -17) NULLS FIRST, w.id
 LIMIT $5;

-- name: Due
-- global: maintenance looks into every workspace
SELECT w.id, w.open
  FROM workspaces w
 WHERE NOT w.open
    OR EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = w.id AND o.status IN ('ready', 'sending') AND o.due_at <= (SELECT lk_now()))
    OR EXISTS (SELECT 1 FROM outbox o WHERE o.workspace_id = w.id AND o.status = 'queued')
    OR EXISTS (SELECT 1 FROM threads t WHERE t.workspace_id = w.id AND t.active_execution_id IS NOT NULL)
    OR EXISTS (SELECT 1 FROM approvals a WHERE a.workspace_id = w.id AND a.status = 'pending' AND a.expires_at <= (SELECT lk_now()))
    OR EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = w.id AND e.subject IS NULL AND e.status = 'parked')
    OR EXISTS (SELECT 1 FROM executions e
                WHERE e.workspace_id = w.id AND e.subject IS NULL AND e.status IN ('running', 'waiting', 'parked')
                  AND e.updated_at < lk_plus((SELECT lk_now()), e.timeout_seconds * -1000)
                  AND NOT EXISTS (
                    WITH RECURSIVE tree (id, status, updated_at) AS (
                      SELECT e.id, e.status, e.updated_at
                      UNION ALL
                      SELECT c.id, c.status, c.updated_at FROM tree p JOIN executions c ON c.workspace_id = e.workspace_id AND c.parent_id = p.id)
                    SELECT 1 FROM tree d
                     WHERE d.status IN ('running', 'waiting', 'parked') AND d.updated_at >= lk_plus((SELECT lk_now()), e.timeout_seconds * -1000)))
    OR EXISTS (SELECT 1 FROM inbox i
                WHERE i.workspace_id = w.id AND i.status IN ('received', 'working', 'failed') AND i.kicks < 4
                  AND NOT EXISTS (SELECT 1 FROM outbox k WHERE k.workspace_id = w.id AND k.key = 'inbox:' || i.id AND k.status IN ('ready', 'sending')))
    OR EXISTS (SELECT 1 FROM webhook_sources s
                WHERE s.workspace_id = w.id AND s.github IS NOT NULL AND s.enabled
                  AND NOT EXISTS (SELECT 1 FROM outbox k WHERE k.workspace_id = w.id AND k.key = 'catch_up:' || s.id AND k.status IN ('ready', 'sending')))
 ORDER BY w.id
 LIMIT $1;

-- name: LockLanes
SELECT 1 FROM agent_locks WHERE workspace_id = $1;

-- name: LockHead
SELECT 1 FROM workspaces WHERE id = $1;

-- name: Erase
-- In one statement, which has no time limit here.
DELETE FROM workspaces WHERE id = $1 AND NOT open AND $2 > 0
RETURNING 0;
