-- why: each engine generates ids and series differently.

-- name: Fill
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, created_at, updated_at)
WITH RECURSIVE s (n) AS (SELECT $2 UNION ALL SELECT n + 1 FROM s WHERE n + 1 < $2 + $3)
SELECT $1, printf('00000000-0000-7000-8000-%012d', n), 'flowpilot', 'fact',
       'everywhere ' || n || CASE WHEN n % 1000 = 0 THEN ' rarely' ELSE '' END, n, lk_now(), lk_now()
  FROM s;

-- name: FillOthers
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, created_at, updated_at)
WITH RECURSIVE s (n) AS (SELECT $2 UNION ALL SELECT n + 1 FROM s WHERE n + 1 < $2 + $3)
SELECT $1, printf('00000000-0000-7000-8000-%012d', n), 'flowpilot', 'fact', 'everywhere rarely ' || n, n, lk_now(), lk_now()
  FROM s;

-- name: Touched
SELECT 0, 0, 0 WHERE $1 <> '';
