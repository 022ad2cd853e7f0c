-- name: SetResult
-- For $5 milliseconds.
INSERT INTO results (workspace_id, task_id, attempt, value, stored_at, expires_at)
VALUES ($1, $2, $3, $4, lk_now(), lk_plus(lk_now(), $5))
ON CONFLICT (workspace_id, task_id, attempt) DO UPDATE SET
  value = excluded.value, stored_at = excluded.stored_at, expires_at = excluded.expires_at;

-- name: GetResult
SELECT value FROM results
 WHERE workspace_id = $1 AND task_id = $2 AND attempt = $3 AND expires_at > lk_now();
