-- why: a purge must not wait for concurrent writers, and SQLite has one writer.

-- name: PurgeResults
DELETE FROM results
 WHERE workspace_id = $1 AND (task_id, attempt) IN (
   SELECT o.task_id, o.attempt FROM results o WHERE o.workspace_id = $1 AND o.expires_at <= (SELECT lk_now()) LIMIT 100);
