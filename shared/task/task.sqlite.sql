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

-- name: AddEdges
INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on)
SELECT $1, json_extract(e.value, '$[0]'), json_extract(e.value, '$[1]') FROM json_each($2) e;

-- name: Edges
WITH RECURSIVE reached (task_id, depends_on) AS (
  SELECT d.task_id, d.depends_on FROM json_each($2) i CROSS JOIN agent_task_dependencies d
   WHERE d.workspace_id = $1 AND d.task_id = i.value
  UNION
  SELECT d.task_id, d.depends_on FROM reached r CROSS JOIN agent_task_dependencies d
   WHERE d.workspace_id = $1 AND d.task_id = r.depends_on)
SELECT r.task_id, r.depends_on FROM reached r;

-- name: GetSome
SELECT @row FROM agent_tasks t WHERE t.workspace_id = $1 AND t.id IN (SELECT i.value FROM json_each($2) i);

-- name: LockNamed
SELECT $1 || $2;

-- name: Named
SELECT n.value ->> 'place',
       n.value ->> 'thread' IS NULL OR EXISTS (SELECT 1 FROM threads o WHERE o.workspace_id = $1 AND o.id = n.value ->> 'thread'),
       n.value ->> 'project' IS NULL OR p.id IS NOT NULL, p.archived_at IS NOT NULL,
       m.project_id, m.archived_at IS NOT NULL OR mp.archived_at IS NOT NULL
  FROM json_each($2) n
  LEFT JOIN projects p ON p.workspace_id = $1 AND p.id = n.value ->> 'project'
  LEFT JOIN milestones m ON m.workspace_id = $1 AND m.id = n.value ->> 'milestone'
  LEFT JOIN projects mp ON mp.workspace_id = $1 AND mp.id = m.project_id;

-- name: Insert
INSERT INTO agent_tasks (workspace_id, id, title, description, task_type, priority, estimated_duration_minutes, estimated_completion_at, max_retries,
  retry_backoff_seconds, input_context, sealed_input, metadata, tags, project_id, milestone_id, thread_id, trust, created_by, created_at, updated_at)
SELECT $1, n.value ->> 'id', n.value ->> 'title', n.value ->> 'description', n.value ->> 'type', n.value ->> 'priority', n.value ->> 'minutes', n.value ->> 'estimated',
       n.value ->> 'retries', n.value ->> 'backoff', n.value ->> 'input', unhex(n.value ->> 'sealed'), n.value ->> 'metadata', n.value ->> 'tags',
       n.value ->> 'project', n.value ->> 'milestone', n.value ->> 'thread',
       CASE WHEN n.value ->> 'untrusted' THEN 'outside' ELSE 'operator' END, n.value ->> 'actor', w.at, w.at
  FROM json_each($2) n, (SELECT lk_now() AS at) w;

-- name: AddTags
INSERT INTO agent_task_tags (workspace_id, tag, task_id) SELECT $1, e.value ->> 1, e.value ->> 0 FROM json_each($2) e;

-- name: Complete
UPDATE agent_tasks AS t SET status = 'COMPLETED', output_result = c.value ->> 'output', summary = c.value ->> 'summary', progress_percent = 100,
       completed_at = lk_now(), version = t.version + 1, updated_at = lk_now()
  FROM json_each($2) c
 WHERE t.workspace_id = $1 AND t.id = c.value ->> 'id' AND t.status = c.value ->> 'was' AND t.attempt = c.value ->> 'attempt';

-- name: EndCompleted
UPDATE agent_task_attempts AS a SET ended_at = lk_now(), outcome = 'completed'
  FROM json_each($2) c
 WHERE a.workspace_id = $1 AND a.task_id = c.value ->> 'id' AND a.number = c.value ->> 'attempt' AND a.ended_at IS NULL;

-- name: Log
INSERT INTO agent_task_logs (workspace_id, id, task_id, level, event, message, details, previous_status, new_status, attempt, agent_id,
  session_key, stack_trace, actor, trace_id, created_at)
SELECT $1, l.value ->> 'id', l.value ->> 'task', l.value ->> 'level', l.value ->> 'event', l.value ->> 'message', l.value ->> 'details', l.value ->> 'was',
       l.value ->> 'becomes', l.value ->> 'attempt', l.value ->> 'agent', l.value ->> 'session',
       l.value ->> 'stack', l.value ->> 'actor', l.value ->> 'trace', lk_now()
  FROM json_each($2) l;

-- name: FirstDependencies
SELECT f.task, f.id, f.title, f.status, f.cancelled, f.waits
  FROM (SELECT d.task_id AS task, o.id, o.title, o.status, o.cancelled, count(*) OVER (PARTITION BY d.task_id) AS waits,
               row_number() OVER (PARTITION BY d.task_id
                 ORDER BY CASE WHEN o.cancelled OR o.status IN ('FAILED', 'ARCHIVED') THEN 0 ELSE 1 END, o.created_at, o.id) AS place
          FROM agent_task_dependencies d
          JOIN agent_tasks o ON o.workspace_id = d.workspace_id AND o.id = d.depends_on
         WHERE d.workspace_id = $1 AND o.completed_at IS NULL
           AND d.task_id IN (SELECT i.value FROM json_each($2) i)) f
 WHERE f.place = 1;

-- name: ThreadTasks
SELECT t.id, o.id, o.title, o.status
  FROM agent_tasks t
  JOIN agent_tasks o ON o.workspace_id = t.workspace_id AND o.thread_id = t.thread_id AND o.status IN ('ASSIGNED', 'RUNNING') AND o.id <> t.id
 WHERE t.workspace_id = $1 AND t.id IN (SELECT i.value FROM json_each($2) i);

-- name: Near
SELECT f.* FROM (SELECT d.task_id, d.depends_on FROM agent_task_dependencies d
                 WHERE d.workspace_id = $1 AND d.task_id IN (SELECT i.value FROM json_each($2) i)
                 ORDER BY d.task_id, d.depends_on LIMIT $3) f
UNION ALL
SELECT f.* FROM (SELECT d.task_id, d.depends_on FROM agent_task_dependencies d
                 WHERE d.workspace_id = $1 AND d.depends_on IN (SELECT i.value FROM json_each($2) i)
                 ORDER BY d.depends_on, d.task_id LIMIT $3) f;

-- name: Within
SELECT d.task_id, d.depends_on
  FROM agent_task_dependencies d
 WHERE d.workspace_id = $1
   AND d.task_id IN (SELECT i.value FROM json_each($2) i)
   AND d.depends_on IN (SELECT i.value FROM json_each($2) i)
 ORDER BY d.task_id, d.depends_on;
