-- why: SQLite has one writer, so that nothing needs a lock, and its own functions for JSON.

-- name: Lock
SELECT 1 FROM agent_tasks WHERE workspace_id = $1 AND id = $2;

-- name: LockGraph
SELECT 1 FROM workspaces WHERE id = $1;

-- name: LockSome
SELECT 1 FROM agent_tasks WHERE workspace_id = $1 AND id IN (SELECT i.value FROM json_each($2) i);

-- name: TouchSome
UPDATE agent_tasks SET version = version + 1, updated_at = lk_now() WHERE workspace_id = $1 AND id IN (SELECT i.value FROM json_each($2) i);

-- name: Some
SELECT t.id, t.status,
       (SELECT count(*) FROM agent_task_dependencies d WHERE d.workspace_id = $1 AND d.task_id = t.id),
       (SELECT count(*) FROM agent_task_dependencies d WHERE d.workspace_id = $1 AND d.depends_on = t.id)
  FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.id IN (SELECT i.value FROM json_each($2) i);

-- name: AddTags
INSERT INTO agent_task_tags (workspace_id, tag, task_id) SELECT $1, i.value, $2 FROM json_each($3) i;

-- name: AddEdges
INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on)
SELECT $1, json_extract(e.value, '$[0]'), json_extract(e.value, '$[1]') FROM json_each($2) e;

-- name: Edges
WITH RECURSIVE reached (id) AS (
  SELECT i.value FROM json_each($2) i
  UNION
  SELECT d.depends_on FROM agent_task_dependencies d JOIN reached r ON d.task_id = r.id WHERE d.workspace_id = $1)
SELECT d.task_id, d.depends_on FROM agent_task_dependencies d JOIN reached r ON d.task_id = r.id WHERE d.workspace_id = $1;
