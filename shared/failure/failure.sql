-- part: work
-- A task that failed is told by itself, and not by its executions. Of a subject the latest end counts. What a kill
-- switch ended did not fail.
  SELECT 'task' AS kind, t.id, coalesce(t.failed_at, t.updated_at) AS at
    FROM agent_tasks t
   WHERE t.workspace_id = $1 AND t.status = 'FAILED'
  UNION ALL
  SELECT 'execution', e.id, coalesce(e.ended_at, e.updated_at)
    FROM executions e
   WHERE e.workspace_id = $1 AND e.status = 'failed' AND e.created_at > lk_plus((SELECT lk_now()), $4)
     AND (e.result ->> 'switched') IS NULL
     AND (e.subject IS NULL
       OR e.subject NOT LIKE 'task:%'
      -- the index of the subjects finds it among the first
      AND e.id = (SELECT l.id FROM executions l
                   WHERE l.workspace_id = $1 AND l.subject = e.subject AND l.status IN ('failed', 'completed')
                   ORDER BY l.created_at DESC, l.id DESC LIMIT 1))

-- part: sends
  SELECT CASE o.kind WHEN 'message' THEN 'message' ELSE 'delivery' END, o.id, o.updated_at
    FROM outbox o
   WHERE o.workspace_id = $1 AND o.kind IN ('message', 'webhook') AND o.status IN ('failed', 'uncertain')
  UNION ALL
  SELECT 'delivery', i.id, i.updated_at
    FROM inbox i
   WHERE i.workspace_id = $1 AND i.status = 'parked'
  UNION ALL
  -- given up while it was worked on
  SELECT 'delivery', i.id, i.updated_at
    FROM inbox i
   WHERE i.workspace_id = $1 AND i.status = 'working' AND i.error IS NOT NULL

-- name: Open
-- The failures that nobody has dismissed, with their number, at most $6. $4 bounds the age of executions.
-- Of messages and deliveries, which may be very many, the newest $6 are read.
WITH failed AS (
  @work
), open AS (
  SELECT f.kind, f.id, f.at
    FROM failed f
   WHERE NOT EXISTS (SELECT 1 FROM failure_dismissals d WHERE d.workspace_id = $1 AND d.kind = f.kind AND d.id = f.id AND d.failed_at >= f.at)
  UNION ALL
  SELECT * FROM (
    SELECT CASE o.kind WHEN 'message' THEN 'message' ELSE 'delivery' END, o.id, o.updated_at
      FROM outbox o
     WHERE o.workspace_id = $1 AND o.kind IN ('message', 'webhook') AND o.status IN ('failed', 'uncertain') AND (o.updated_at, o.id) < ($2, $3)
       AND NOT EXISTS (SELECT 1 FROM failure_dismissals d
                        WHERE d.workspace_id = $1 AND d.kind = CASE o.kind WHEN 'message' THEN 'message' ELSE 'delivery' END AND d.id = o.id
                          AND d.failed_at >= o.updated_at)
     ORDER BY o.updated_at DESC, o.id DESC
     LIMIT $6) AS sent
  UNION ALL
  SELECT * FROM (
    SELECT 'delivery', i.id, i.updated_at
      FROM inbox i
     WHERE i.workspace_id = $1 AND i.status = 'parked' AND (i.updated_at, i.id) < ($2, $3)
       AND NOT EXISTS (SELECT 1 FROM failure_dismissals d
                        WHERE d.workspace_id = $1 AND d.kind = 'delivery' AND d.id = i.id AND d.failed_at >= i.updated_at)
     ORDER BY i.updated_at DESC, i.id DESC
     LIMIT $6) AS received
  UNION ALL
  SELECT 'delivery', i.id, i.updated_at
    FROM inbox i
   WHERE i.workspace_id = $1 AND i.status = 'working' AND i.error IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM failure_dismissals d
                      WHERE d.workspace_id = $1 AND d.kind = 'delivery' AND d.id = i.id AND d.failed_at >= i.updated_at)
), shown AS (
  SELECT o.kind, o.id, o.at
    FROM open o
   WHERE (o.at, o.id) < ($2, $3)
   ORDER BY o.at DESC, o.id DESC
   LIMIT $5
)
SELECT s.kind, s.id, substr(coalesce(t.title, e.subject, e.agent, o.payload ->> 'body', o.topic, i.source || ': ' || i.event), 1, 200),
       substr(coalesce(t.last_error, e.error, o.last_error, i.error), 1, 500), s.at, coalesce(e.trace_id, o.trace_id, i.trace_id), o.order_key,
       e.surface, e.input,
       (SELECT count(*) FROM (SELECT 1 FROM open LIMIT $6) AS n)
  FROM shown s
  LEFT JOIN agent_tasks t ON s.kind = 'task' AND t.workspace_id = $1 AND t.id = s.id
  LEFT JOIN executions e ON s.kind = 'execution' AND e.workspace_id = $1 AND e.id = s.id
  LEFT JOIN outbox o ON s.kind IN ('message', 'delivery') AND o.workspace_id = $1 AND o.id = s.id
  LEFT JOIN inbox i ON s.kind = 'delivery' AND i.workspace_id = $1 AND i.id = s.id
 ORDER BY s.at DESC, s.id DESC;

-- name: Dismiss
WITH failed AS (
  @work
  UNION ALL
  @sends
)
INSERT INTO failure_dismissals (workspace_id, kind, id, failed_at, dismissed_by, created_at)
SELECT $1, f.kind, f.id, f.at, $5, lk_now()
  FROM failed f
 WHERE f.kind = $2 AND f.id = $3 AND f.at = $6
ON CONFLICT (workspace_id, kind, id) DO UPDATE
   SET failed_at = excluded.failed_at, dismissed_by = excluded.dismissed_by, created_at = excluded.created_at;

-- name: Stands
-- One row if a thing stands as failed, whenever it failed.
WITH failed AS (
  @work
  UNION ALL
  @sends
)
SELECT 1 FROM failed f WHERE f.kind = $2 AND f.id = $3;
