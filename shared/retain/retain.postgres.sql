-- why: the application may only append to these tables, so a function of their owner deletes.
-- name: Activity
SELECT lk_purge_activity(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;

-- name: Events
SELECT lk_purge_events(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;

-- name: Usage
SELECT lk_purge_usage(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;

-- name: TaskLogs
SELECT lk_purge_task_logs(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;
