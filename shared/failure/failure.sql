-- part: failed
-- A task that failed is told by itself, and not by its executions.
  SELECT 'task' AS kind, t.id, t.title, t.last_error AS why, coalesce(t.failed_at, t.updated_at) AS at, CAST(NULL AS text) AS trace,
         CAST(NULL AS text) AS surface, NULL AS input
    FROM agent_tasks t
   WHERE t.workspace_id = $1 AND t.status = 'FAILED'
  UNION ALL
  SELECT 'execution', e.id, coalesce(e.subject, e.agent), e.error, coalesce(e.ended_at, e.updated_at), e.trace_id, e.surface, e.input
    FROM executions e
   WHERE e.workspace_id = $1 AND e.status = 'failed' AND e.created_at > lk_plus((SELECT lk_now()), $4)
     AND (e.subject IS NULL OR e.subject NOT LIKE 'task:%')
     -- with a limit, so that the index of the subjects is used, even if there are many executions
     AND (SELECT l.id FROM executions l
           WHERE l.workspace_id = $1 AND l.subject = e.subject AND l.created_at > e.created_at AND l.status IN ('running', 'completed')
           ORDER BY l.created_at DESC LIMIT 1) IS NULL
  UNION ALL
  SELECT CASE o.kind WHEN 'message' THEN 'message' ELSE 'delivery' END, o.id, coalesce(o.payload ->> 'body', o.topic), o.last_error, o.updated_at, o.trace_id, NULL, NULL
    FROM outbox o
   WHERE o.workspace_id = $1 AND (o.kind = 'message' AND o.status IN ('failed', 'uncertain') OR o.kind = 'webhook' AND o.status = 'failed')
  UNION ALL
  SELECT 'delivery', i.id, i.source || ': ' || i.event, i.error, i.updated_at, i.trace_id, NULL, NULL
    FROM inbox i
   WHERE i.workspace_id = $1 AND i.status = 'parked'

-- name: Open
-- The failures that nobody has dismissed, with their number. $4 bounds the age of executions.
WITH failed AS (
  @failed
), open AS (
  SELECT f.*, count(*) OVER () AS n
    FROM failed f
   WHERE NOT EXISTS (SELECT 1 FROM failure_dismissals d WHERE d.workspace_id = $1 AND d.kind = f.kind AND d.id = f.id AND d.failed_at >= f.at)
)
SELECT o.kind, o.id, substr(o.title, 1, 200), substr(o.why, 1, 500), o.at, o.trace, o.surface, o.input, o.n
  FROM open o
 WHERE (o.at, o.id) < ($2, $3)
 ORDER BY o.at DESC, o.id DESC
 LIMIT $5;

-- name: Dismiss
WITH failed AS (
  @failed
)
INSERT INTO failure_dismissals (workspace_id, kind, id, failed_at, dismissed_by, created_at)
SELECT $1, f.kind, f.id, f.at, $5, lk_now()
  FROM failed f
 WHERE f.kind = $2 AND f.id = $3
ON CONFLICT (workspace_id, kind, id) DO UPDATE
   SET failed_at = excluded.failed_at, dismissed_by = excluded.dismissed_by, created_at = excluded.created_at;
