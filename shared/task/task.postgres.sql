-- why: Postgres has writers side by side, who lock rows, and its own functions for JSON.

-- name: Lock
SELECT 1 FROM agent_tasks WHERE workspace_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: LockGraph
-- Dependencies of a workspace are written one after the other: two transactions could each add one
-- half of a cycle, or the last edge that a task may have.
SELECT 1 FROM workspaces WHERE id = $1 FOR NO KEY UPDATE;

-- name: LockSome
SELECT 1 FROM agent_tasks
 WHERE workspace_id = $1 AND id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))
 ORDER BY id
   FOR NO KEY UPDATE;

-- name: TouchSome
UPDATE agent_tasks SET version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i));

-- name: Some
SELECT CAST(t.id AS text), t.status,
       (SELECT count(*) FROM agent_task_dependencies d WHERE d.workspace_id = $1 AND d.task_id = t.id),
       (SELECT count(*) FROM agent_task_dependencies d WHERE d.workspace_id = $1 AND d.depends_on = t.id)
  FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i));

-- name: AddEdges
INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on)
SELECT CAST($1 AS uuid), CAST(e ->> 0 AS uuid), CAST(e ->> 1 AS uuid) FROM jsonb_array_elements(CAST($2 AS jsonb)) e;

-- name: Edges
-- The dependencies of some tasks, and those of their dependencies, and so on. The subqueries stay such, so
-- that each step reads the edges of its tasks and not all of the workspace's.
WITH RECURSIVE reached (task_id, depends_on) AS (
  SELECT d.task_id, d.depends_on
    FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i
   CROSS JOIN LATERAL (SELECT d.task_id, d.depends_on FROM agent_task_dependencies d
                        WHERE d.workspace_id = $1 AND d.task_id = CAST(i AS uuid) OFFSET 0) d
  UNION
  SELECT d.task_id, d.depends_on
    FROM reached r
   CROSS JOIN LATERAL (SELECT d.task_id, d.depends_on FROM agent_task_dependencies d
                        WHERE d.workspace_id = $1 AND d.task_id = r.depends_on OFFSET 0) d)
SELECT CAST(r.task_id AS text), CAST(r.depends_on AS text) FROM reached r;

-- name: GetSome
SELECT @row
  FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i));

-- name: LockNamed
-- The projects and the milestones that new tasks name, and the milestones' projects: who archives or
-- deletes one waits until the tasks are there.
WITH m AS MATERIALIZED (
  SELECT m.project_id FROM milestones m
   WHERE m.workspace_id = $1 AND m.id IN (SELECT n.milestone FROM jsonb_to_recordset(CAST($2 AS jsonb)) n (milestone uuid))
   ORDER BY m.id
     FOR SHARE),
p AS MATERIALIZED (
  SELECT 1 FROM projects p
   WHERE p.workspace_id = $1
     AND (p.id IN (SELECT m.project_id FROM m) OR p.id IN (SELECT n.project FROM jsonb_to_recordset(CAST($2 AS jsonb)) n (project uuid)))
   ORDER BY p.id
     FOR SHARE)
SELECT (SELECT count(*) FROM m), (SELECT count(*) FROM p);

-- name: Named
-- Of each new task: whether its thread is there, whether its project is and is archived, its milestone's
-- project, and whether that or the milestone is archived.
SELECT n.place,
       n.thread IS NULL OR EXISTS (SELECT 1 FROM threads o WHERE o.workspace_id = $1 AND o.id = n.thread),
       n.project IS NULL OR p.id IS NOT NULL, p.archived_at IS NOT NULL,
       m.project_id, m.archived_at IS NOT NULL OR mp.archived_at IS NOT NULL
  FROM jsonb_to_recordset(CAST($2 AS jsonb)) n (place integer, thread uuid, project uuid, milestone uuid)
  LEFT JOIN projects p ON p.workspace_id = $1 AND p.id = n.project
  LEFT JOIN milestones m ON m.workspace_id = $1 AND m.id = n.milestone
  LEFT JOIN projects mp ON mp.workspace_id = $1 AND mp.id = m.project_id;

-- name: Insert
INSERT INTO agent_tasks (workspace_id, id, title, description, task_type, priority, estimated_duration_minutes, estimated_completion_at, max_retries,
  retry_backoff_seconds, input_context, sealed_input, metadata, tags, project_id, milestone_id, thread_id, trust, created_by, created_at, updated_at)
SELECT CAST($1 AS uuid), n.id, n.title, n.description, n.type, n.priority, n.minutes, timestamptz 'epoch' + n.estimated * interval '1 microsecond',
       n.retries, n.backoff, n.input, decode(n.sealed, 'hex'), n.metadata, n.tags, n.project, n.milestone, n.thread, CASE WHEN n.untrusted THEN 'outside' ELSE 'operator' END,
       n.actor, w.at, w.at
  FROM (SELECT lk_now() AS at) w,
       jsonb_to_recordset(CAST($2 AS jsonb)) n (id uuid, title text, description text, type text, priority integer, minutes integer, estimated bigint,
       retries integer, backoff integer, input text, sealed text, metadata text, tags text, project uuid, milestone uuid, thread uuid, untrusted boolean, actor text);

-- name: AddTags
INSERT INTO agent_task_tags (workspace_id, tag, task_id)
SELECT CAST($1 AS uuid), e ->> 1, CAST(e ->> 0 AS uuid) FROM jsonb_array_elements(CAST($2 AS jsonb)) e;

-- name: Complete
-- Changes tasks only from the status and the attempt that were read. The limit says how many rows the list has:
-- without it Postgres expects a hundred, and reads a small table as a whole for one of them.
UPDATE agent_tasks AS t SET status = 'COMPLETED', output_result = c.output, summary = c.summary, progress_percent = 100, completed_at = lk_now(),
       version = t.version + 1, updated_at = lk_now()
  FROM (SELECT * FROM jsonb_to_recordset(CAST($2 AS jsonb)) c (id uuid, was text, attempt integer, output text, summary text)
         LIMIT jsonb_array_length(CAST($2 AS jsonb))) c
 WHERE t.workspace_id = $1 AND t.id = c.id AND t.status = c.was AND t.attempt = c.attempt;

-- name: EndCompleted
UPDATE agent_task_attempts AS a SET ended_at = lk_now(), outcome = 'completed'
  FROM (SELECT * FROM jsonb_to_recordset(CAST($2 AS jsonb)) c (id uuid, attempt integer)
         LIMIT jsonb_array_length(CAST($2 AS jsonb))) c
 WHERE a.workspace_id = $1 AND a.task_id = c.id AND a.number = c.attempt AND a.ended_at IS NULL;

-- name: Log
INSERT INTO agent_task_logs (workspace_id, id, task_id, level, event, message, details, previous_status, new_status, attempt, agent_id,
  session_key, stack_trace, actor, trace_id, created_at)
SELECT CAST($1 AS uuid), l.id, l.task, l.level, l.event, l.message, l.details, l.was, l.becomes, l.attempt, l.agent, l.session, l.stack, l.actor,
       l.trace, lk_now()
  FROM jsonb_to_recordset(CAST($2 AS jsonb)) l (id uuid, task uuid, level text, event text, message text, details text, was text, becomes text,
       attempt integer, agent uuid, session text, stack text, actor text, trace text);

-- name: FirstDependencies
-- Of each task the dependency that holds it up first, as in OpenDependencies, and how many do.
SELECT f.task, f.id, f.title, f.status, f.cancelled, f.waits
  FROM (SELECT CAST(d.task_id AS text) AS task, o.id, o.title, o.status, o.cancelled, count(*) OVER (PARTITION BY d.task_id) AS waits,
               row_number() OVER (PARTITION BY d.task_id
                 ORDER BY CASE WHEN o.cancelled OR o.status IN ('FAILED', 'ARCHIVED') THEN 0 ELSE 1 END, o.created_at, o.id) AS place
          FROM agent_task_dependencies d
          JOIN agent_tasks o ON o.workspace_id = d.workspace_id AND o.id = d.depends_on
         WHERE d.workspace_id = $1 AND o.completed_at IS NULL
           AND d.task_id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))) f
 WHERE f.place = 1;

-- name: ThreadTasks
-- The active tasks of the threads of some tasks.
SELECT CAST(t.id AS text), o.id, o.title, o.status
  FROM agent_tasks t
  JOIN agent_tasks o ON o.workspace_id = t.workspace_id AND o.thread_id = t.thread_id AND o.status IN ('ASSIGNED', 'RUNNING') AND o.id <> t.id
 WHERE t.workspace_id = $1 AND t.id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i));

-- name: Near
-- The edges at some tasks, at most $3 in each direction.
SELECT f.* FROM (SELECT CAST(d.task_id AS text), CAST(d.depends_on AS text) FROM agent_task_dependencies d
                 WHERE d.workspace_id = $1 AND d.task_id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))
                 ORDER BY d.task_id, d.depends_on LIMIT $3) f
UNION ALL
SELECT f.* FROM (SELECT CAST(d.task_id AS text), CAST(d.depends_on AS text) FROM agent_task_dependencies d
                 WHERE d.workspace_id = $1 AND d.depends_on = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))
                 ORDER BY d.depends_on, d.task_id LIMIT $3) f;

-- name: Within
-- The edges between some tasks.
SELECT CAST(d.task_id AS text), CAST(d.depends_on AS text)
  FROM agent_task_dependencies d
 WHERE d.workspace_id = $1
   AND d.task_id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))
   AND d.depends_on = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))
 ORDER BY d.task_id, d.depends_on;
