-- why: a purge must not wait for concurrent writers, and SQLite has one writer.

-- name: PurgeResults
WITH old AS MATERIALIZED (
  SELECT task_id, attempt FROM results
   WHERE workspace_id = $1 AND expires_at <= (SELECT lk_now())
   LIMIT 100 FOR UPDATE SKIP LOCKED)
DELETE FROM results r USING old WHERE r.workspace_id = $1 AND r.task_id = old.task_id AND r.attempt = old.attempt;
