-- What metrics read from rows: numbers of tasks, agents, lanes and approvals, and how far the outbox
-- and the inbox lag.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE INDEX agent_tasks_failed ON agent_tasks (workspace_id, failed_at) WHERE status = 'FAILED';

-- lk_gauges are those of the workspace that the transaction has entered; of all workspaces together
-- where it has entered none. Lags are in seconds.
CREATE FUNCTION lk_gauges() RETURNS TABLE (name text, label text, value double precision) LANGUAGE sql SECURITY DEFINER AS $$
  WITH clock AS MATERIALIZED (SELECT lk_now() AS now),
  w AS MATERIALIZED (
    SELECT id FROM workspaces
     WHERE nullif(current_setting('app.workspace_id', true), '') IS NULL OR id = nullif(current_setting('app.workspace_id', true), '')::uuid),
  open_tasks AS MATERIALIZED (
    SELECT s.status, sum((SELECT count(*) FROM agent_tasks t WHERE t.workspace_id = w.id AND t.status = s.status)) AS n
      FROM (VALUES ('PENDING'), ('ASSIGNED'), ('RUNNING'), ('PAUSED')) AS s (status) LEFT JOIN w ON true
     GROUP BY s.status),
  failed_tasks AS MATERIALIZED (
    SELECT t.retry_count, t.max_retries
      FROM w JOIN agent_tasks t ON t.workspace_id = w.id AND t.status = 'FAILED' AND t.failed_at > (SELECT lk_plus(now, -3600000) FROM clock)),
  working AS MATERIALIZED (
    SELECT a.status, a.health FROM w JOIN agents a ON a.workspace_id = w.id AND a.terminated_at IS NULL)
  SELECT CASE o.status WHEN 'PENDING' THEN 'tasks.pending.count' WHEN 'ASSIGNED' THEN 'tasks.assigned.count'
              WHEN 'RUNNING' THEN 'tasks.running.count' ELSE 'tasks.paused.count' END, '', coalesce(o.n, 0)
    FROM open_tasks o
  UNION ALL
  SELECT 'tasks.failed.count', '', count(*) FROM failed_tasks
  UNION ALL
  SELECT 'tasks.retry.exhausted.count', '', count(*) FROM failed_tasks WHERE retry_count >= max_retries
  UNION ALL
  SELECT 'agents.count', s.status, count(a.status)
    FROM (VALUES ('IDLE'), ('WORKING'), ('DEGRADED'), ('ERROR'), ('DRAINING')) AS s (status) LEFT JOIN working a ON a.status = s.status
   GROUP BY s.status
  UNION ALL
  SELECT 'coordinator.stale_agents.count', '', count(*) FROM working WHERE health = 'stale'
  UNION ALL
  SELECT 'lane.active.count', '', count(l.lane)
    FROM w JOIN agent_locks l ON l.workspace_id = w.id AND l.token IS NOT NULL AND l.expires_at > (SELECT now FROM clock)
  UNION ALL
  SELECT 'approvals.pending.count', '', count(p.id) FROM w JOIN approvals p ON p.workspace_id = w.id AND p.status = 'pending'
  UNION ALL
  SELECT 'outbox.lag_ms', '', coalesce(greatest(extract(epoch FROM (SELECT now FROM clock) - min(o.due_at)), 0), 0)
    FROM w JOIN outbox o ON o.workspace_id = w.id AND o.status IN ('ready', 'sending')
  UNION ALL
  SELECT 'inbox.lag_ms', '', coalesce(greatest(extract(epoch FROM (SELECT now FROM clock) - min(i.received_at)), 0), 0)
    FROM w JOIN inbox i ON i.workspace_id = w.id AND i.status IN ('received', 'working', 'failed')
$$;
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_gauges() SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_gauges() FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_gauges() TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_gauges();
DROP INDEX agent_tasks_failed;
