-- why: Postgres has writers side by side, who lock rows, and its own functions for JSON.

-- name: Lock
SELECT 1 FROM agent_tasks WHERE workspace_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: LockGraph
-- Dependencies of a workspace are written one after the other: two transactions could each add one
-- half of a cycle, or the last edge that a task may have.
SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE;

-- name: LockSome
SELECT 1 FROM agent_tasks
 WHERE workspace_id = $1 AND id IN (SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i)
 ORDER BY id
   FOR NO KEY UPDATE;

-- name: TouchSome
UPDATE agent_tasks SET version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id IN (SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i);

-- name: Some
SELECT CAST(t.id AS text), t.status,
       (SELECT count(*) FROM agent_task_dependencies d WHERE d.workspace_id = $1 AND d.task_id = t.id),
       (SELECT count(*) FROM agent_task_dependencies d WHERE d.workspace_id = $1 AND d.depends_on = t.id)
  FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.id IN (SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i);

-- name: AddTags
INSERT INTO agent_task_tags (workspace_id, tag, task_id)
SELECT CAST($1 AS uuid), i, CAST($2 AS uuid) FROM jsonb_array_elements_text(CAST($3 AS jsonb)) i;

-- name: AddEdges
INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on)
SELECT CAST($1 AS uuid), CAST(e ->> 0 AS uuid), CAST(e ->> 1 AS uuid) FROM jsonb_array_elements(CAST($2 AS jsonb)) e;

-- name: Edges
-- The dependencies of some tasks, and those of their dependencies, and so on.
WITH RECURSIVE reached (id) AS (
  SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i
  UNION
  SELECT d.depends_on FROM agent_task_dependencies d JOIN reached r ON d.task_id = r.id WHERE d.workspace_id = $1)
SELECT CAST(d.task_id AS text), CAST(d.depends_on AS text)
  FROM agent_task_dependencies d JOIN reached r ON d.task_id = r.id
 WHERE d.workspace_id = $1;
