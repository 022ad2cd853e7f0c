-- why: SQLite has no functions of its own and no roles. lk_gauges of Postgres does the same.
-- name: Read
-- global: of workspace $1, or of all where $1 is empty
WITH clock (now) AS MATERIALIZED (SELECT lk_now()),
w AS MATERIALIZED (SELECT id FROM workspaces WHERE id = $1 OR $1 = ''),
open_tasks AS MATERIALIZED (
  SELECT s.column1 AS status, sum((SELECT count(*) FROM agent_tasks t WHERE t.workspace_id = w.id AND t.status = s.column1)) AS n
    FROM (VALUES ('PENDING'), ('ASSIGNED'), ('RUNNING'), ('PAUSED')) AS s LEFT JOIN w ON true
   GROUP BY s.column1),
failed_tasks AS MATERIALIZED (
  SELECT t.retry_count, t.max_retries
    FROM w JOIN agent_tasks t ON t.workspace_id = w.id AND t.status = 'FAILED' AND t.failed_at > (SELECT lk_plus(now, -3600000) FROM clock)),
working AS MATERIALIZED (
  SELECT a.status FROM w JOIN agents a ON a.workspace_id = w.id AND a.terminated_at IS NULL)
SELECT CASE o.status WHEN 'PENDING' THEN 'tasks.pending.count' WHEN 'ASSIGNED' THEN 'tasks.assigned.count'
            WHEN 'RUNNING' THEN 'tasks.running.count' ELSE 'tasks.paused.count' END, '', CAST(coalesce(o.n, 0) AS REAL)
  FROM open_tasks o
UNION ALL
SELECT 'tasks.failed.count', '', CAST(count(*) AS REAL) FROM failed_tasks
UNION ALL
SELECT 'tasks.retry.exhausted.count', '', CAST(count(*) AS REAL) FROM failed_tasks WHERE retry_count >= max_retries
UNION ALL
SELECT 'agents.count', s.column1, CAST(count(a.status) AS REAL)
  FROM (VALUES ('IDLE'), ('WORKING'), ('DEGRADED'), ('ERROR'), ('DRAINING')) AS s LEFT JOIN working a ON a.status = s.column1
 GROUP BY s.column1
UNION ALL
SELECT 'coordinator.stale_agents.count', '', CAST(count(*) AS REAL) FROM working WHERE status = 'ERROR'
UNION ALL
SELECT 'lane.active.count', '', CAST(count(l.lane) AS REAL)
  FROM w JOIN agent_locks l ON l.workspace_id = w.id AND l.token IS NOT NULL AND l.expires_at > (SELECT now FROM clock)
UNION ALL
SELECT 'approvals.pending.count', '', CAST(count(p.id) AS REAL) FROM w JOIN approvals p ON p.workspace_id = w.id AND p.status = 'pending'
UNION ALL
SELECT 'outbox.lag_ms', '', coalesce(max(((SELECT now FROM clock) - min(o.due_at)) / 1e6, 0.0), 0.0)
  FROM w JOIN outbox o ON o.workspace_id = w.id AND o.status IN ('ready', 'sending')
UNION ALL
SELECT 'inbox.lag_ms', '', coalesce(max(((SELECT now FROM clock) - min(i.received_at)) / 1e6, 0.0), 0.0)
  FROM w JOIN inbox i ON i.workspace_id = w.id AND i.status IN ('received', 'working', 'failed');
