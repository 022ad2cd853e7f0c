-- why: SQLite has one writer, so nothing needs a lock.

-- name: LockHead
SELECT 1 FROM workspaces WHERE id = $1;

-- name: CallsOfAll
-- How many calls each skill had on each day since $2, by the rules of Health, and how many failed.
SELECT skill_name, strftime('%Y-%m-%d', created_at / 1000000, 'unixepoch'), count(*), count(CASE WHEN status = 'error' THEN 1 END)
  FROM agent_activity
 WHERE workspace_id = $1 AND skill_name IS NOT NULL AND skill_name NOT LIKE '%.%' AND skill_name NOT LIKE '(%' AND skill_name <> 'heartbeat'
   AND (status = 'success' OR status = 'error' AND output ->> 'refused' IS NULL)
   AND created_at >= $2
 GROUP BY 1, 2
 ORDER BY 1, 2;
