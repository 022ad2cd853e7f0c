-- why: Postgres has concurrent writers, which must count one after the other.

-- name: LockHead
SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE;

-- name: CallsOfAll
-- How many calls each skill had on each day since $2, by the rules of Health, and how many failed.
SELECT skill_name, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), count(*), count(CASE WHEN status = 'error' THEN 1 END)
  FROM agent_activity
 WHERE workspace_id = $1 AND skill_name IS NOT NULL AND skill_name NOT LIKE '%.%' AND skill_name NOT LIKE '(%' AND skill_name <> 'heartbeat'
   AND (status = 'success' OR status = 'error' AND output ->> 'refused' IS NULL)
   AND created_at >= $2
 GROUP BY 1, 2
 ORDER BY 1, 2;
