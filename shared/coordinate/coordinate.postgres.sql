-- why: Postgres has writers side by side, who lock rows and skip those that others have locked, and its own functions for JSON.

-- name: LockDoubtful
-- The agents whose status may have to change, and those that commands name.
SELECT a.id FROM agents a
 WHERE a.workspace_id = $1
   AND (a.id IN (SELECT c.agent_id FROM coordinator_commands c WHERE c.workspace_id = $1 AND c.done_at IS NULL)
     OR a.terminated_at IS NULL
        AND (a.last_seen_at < lk_plus((SELECT lk_now()), a.heartbeat_interval_seconds * -2000)
          OR a.last_seen_at < lk_plus((SELECT lk_now()), a.stale_threshold_seconds * -1000)
          OR a.status = 'DRAINING'
          OR a.status IN ('IDLE', 'WORKING')
             AND (a.status = 'WORKING') <> EXISTS (SELECT 1 FROM agent_task_attempts o WHERE o.workspace_id = $1 AND o.agent_id = a.id AND o.ended_at IS NULL)))
 ORDER BY a.id
   FOR NO KEY UPDATE;

-- name: LockAgents
-- The agents of a range that may get tasks.
SELECT a.id FROM agents a
 WHERE a.workspace_id = $1 AND a.terminated_at IS NULL AND a.coordinator_enabled AND a.status IN ('IDLE', 'WORKING')
   AND a.id BETWEEN $2 AND $3
 ORDER BY a.id
   FOR NO KEY UPDATE;

-- name: UpdateAgents
-- Here and below the limit says how many rows the list has: without it Postgres expects a hundred, and reads a
-- small table as a whole for one of them.
UPDATE agents AS a SET
  status = c.becomes, health = coalesce(c.health, a.health), coordinator_enabled = a.coordinator_enabled AND NOT c.pause,
  idle_since = CASE WHEN c.becomes = 'IDLE' THEN coalesce(a.idle_since, lk_now()) WHEN c.becomes = 'WORKING' THEN NULL ELSE a.idle_since END,
  terminated_at = CASE WHEN c.becomes = 'TERMINATED' THEN lk_now() ELSE a.terminated_at END,
  termination_reason = coalesce(c.reason, a.termination_reason), updated_at = lk_now(),
  version = a.version + CAST(a.coordinator_enabled AND c.pause AS integer)
  FROM (SELECT * FROM jsonb_to_recordset(CAST($2 AS jsonb)) c (id uuid, was text, becomes text, health text, pause boolean, reason text)
         LIMIT jsonb_array_length(CAST($2 AS jsonb))) c
 WHERE a.workspace_id = $1 AND a.id = c.id AND a.status = c.was;

-- name: LockTasks
-- The tasks that time, an agent or a spawner has decided about, and those in the list. An array is
-- computed once, also where the statistics know nothing of many new tasks yet. A task is late by the later of its
-- estimated completion and the end of its estimated duration, and never before it has begun. One of the built-in
-- worker is unattended while no row of the outbox has it worked on: its agent was of another kind, or the row is lost.
-- A kill switch ends the attempts of all other agents; the built-in worker stops by itself.
-- The list is locked as a whole: its tasks are decided about together.
SELECT t.id FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.id = ANY (ARRAY(
  (SELECT w.id FROM agent_tasks w LEFT JOIN agents a ON a.workspace_id = w.workspace_id AND a.id = w.agent_id
    WHERE w.workspace_id = $1 AND w.status IN ('ASSIGNED', 'RUNNING')
      AND (a.id IS NULL OR a.status IN ('ERROR', 'TERMINATED')
        OR w.status = 'ASSIGNED' AND w.assigned_at <= lk_plus((SELECT lk_now()), $3)
        OR w.status = 'RUNNING' AND lk_plus(w.started_at, coalesce(w.estimated_duration_minutes, 0) * CAST(60000 AS bigint)) <= lk_plus((SELECT lk_now()), $4)
           AND coalesce(w.estimated_completion_at <= lk_plus((SELECT lk_now()), $4), w.estimated_duration_minutes IS NOT NULL)
        OR w.status = 'RUNNING' AND a.last_seen_at IS NULL AND @watched AND w.updated_at <= lk_plus((SELECT lk_now()), @silence)
           AND NOT EXISTS (SELECT 1 FROM agent_usage_logs u
                            WHERE u.workspace_id = $1 AND u.task_id = w.id AND u.created_at > lk_plus((SELECT lk_now()), @silence))
           AND NOT EXISTS (SELECT 1 FROM agent_task_logs g
                            WHERE g.workspace_id = $1 AND g.task_id = w.id AND g.created_at > lk_plus((SELECT lk_now()), @silence)
                              AND g.attempt = w.attempt AND g.event = 'progress_update')
        OR w.status = 'RUNNING' AND a.spawner = 'builtin' AND w.updated_at <= lk_plus((SELECT lk_now()), $3)
           AND NOT EXISTS (SELECT 1 FROM outbox o
                            WHERE o.workspace_id = $1 AND o.key = 'worker:' || CAST(w.id AS text) AND o.status IN ('queued', 'ready', 'sending'))
        OR a.spawner <> 'builtin'
           AND EXISTS (SELECT 1 FROM kill_switches k
                        WHERE k.workspace_id = $1 AND k.released_at IS NULL
                          AND (k.scope = 'workspace' OR k.scope = 'agent' AND k.target IN (a.name, CAST(a.id AS text)))))
     LIMIT 5000)
   UNION ALL
  (SELECT b.id FROM agent_tasks b WHERE b.workspace_id = $1 AND b.next_attempt_at <= (SELECT lk_now()) LIMIT 5000)
   UNION ALL
   SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))
 ORDER BY t.id
   FOR NO KEY UPDATE OF t;

-- name: LockThese
SELECT t.id FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))
 ORDER BY t.id
   FOR NO KEY UPDATE;

-- name: Doubtful
-- A task whose run waits for a person is not late, and its agent is not idle just after the run has gone on.
SELECT t.id, t.title, t.status, t.status_reason, t.cancelled, t.attempt, t.agent_id, t.session_key, t.retry_count, t.max_retries,
       t.retry_backoff_seconds, t.priority, t.strikes, t.raised, t.thread_id, a.id IS NULL OR a.status IN ('ERROR', 'TERMINATED'),
       coalesce(a.status, ''), coalesce(a.spawner, ''),
       coalesce(t.next_attempt_at <= lk_now(), false), coalesce(t.assigned_at <= lk_plus(lk_now(), $3), false),
       coalesce(lk_plus(t.started_at, coalesce(t.estimated_duration_minutes, 0) * CAST(60000 AS bigint)) <= lk_plus(lk_now(), $4)
         AND coalesce(t.estimated_completion_at <= lk_plus(lk_now(), $4), t.estimated_duration_minutes IS NOT NULL), false)
         AND NOT EXISTS (SELECT 1 FROM executions e
                          WHERE e.workspace_id = $1 AND e.subject = 'task:' || CAST(t.id AS text) AND e.status = 'waiting'),
       n.warned_at IS NOT NULL,
       coalesce(n.warned_at <= lk_plus(lk_now(), $7) AND t.updated_at <= lk_plus(lk_now(), $7), false)
         AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = $1 AND e.subject = 'task:' || CAST(t.id AS text)
                            AND e.status = 'running' AND e.updated_at > lk_plus(lk_now(), $7)),
       a.last_seen_at IS NULL AND @watched AND t.updated_at <= lk_plus(lk_now(), @silence)
         AND NOT EXISTS (SELECT 1 FROM agent_usage_logs u
                          WHERE u.workspace_id = $1 AND u.task_id = t.id AND u.created_at > lk_plus(lk_now(), @silence))
         AND NOT EXISTS (SELECT 1 FROM agent_task_logs g
                          WHERE g.workspace_id = $1 AND g.task_id = t.id AND g.created_at > lk_plus(lk_now(), @silence)
                            AND g.attempt = t.attempt AND g.event = 'progress_update'),
       coalesce(a.spawner = 'builtin', false) AND t.updated_at <= lk_plus(lk_now(), $3)
         AND NOT EXISTS (SELECT 1 FROM outbox o
                          WHERE o.workspace_id = $1 AND o.key = 'worker:' || CAST(t.id AS text) AND o.status IN ('queued', 'ready', 'sending')),
       coalesce(a.spawner <> 'builtin', false)
         AND EXISTS (SELECT 1 FROM kill_switches k
                      WHERE k.workspace_id = $1 AND k.released_at IS NULL
                        AND (k.scope = 'workspace' OR k.scope = 'agent' AND k.target IN (a.name, CAST(a.id AS text)))),
       (SELECT o.status FROM outbox o WHERE o.workspace_id = $1 AND o.key = 'task:' || CAST(t.id AS text) || ':' || CAST(t.attempt AS text))
  FROM agent_tasks t
  LEFT JOIN agents a ON a.workspace_id = t.workspace_id AND a.id = t.agent_id
  LEFT JOIN agent_task_attempts n ON n.workspace_id = t.workspace_id AND n.task_id = t.id AND n.number = t.attempt
 WHERE t.workspace_id = $1 AND t.id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))
 ORDER BY t.id;

-- name: Waiting
-- What waits depends on, as far as that is not completed. An aborted task waits while it has a next
-- attempt. What a dependency depends on is looked up for each: where the statistics know nothing of many
-- new tasks, a join would pair all of them with all.
SELECT w.task_id, w.depends_on, CASE WHEN o.cancelled OR o.status IN ('FAILED', 'ARCHIVED') THEN 'dead'
                                     WHEN o.status IN ('PENDING', 'PAUSED', 'ABORTED') THEN 'waits' ELSE 'works' END
  FROM (SELECT d.task_id, d.depends_on
          FROM agent_task_dependencies d
          JOIN agent_tasks t ON t.workspace_id = d.workspace_id AND t.id = d.task_id
         WHERE d.workspace_id = $1 AND (t.status IN ('PENDING', 'PAUSED') OR t.status = 'ABORTED' AND t.next_attempt_at IS NOT NULL)
           AND NOT t.cancelled
        OFFSET 0) w
 CROSS JOIN LATERAL (SELECT n.cancelled, n.status FROM agent_tasks n WHERE n.workspace_id = $1 AND n.id = w.depends_on AND n.completed_at IS NULL OFFSET 0) o;

-- name: WaitingOf
SELECT d.task_id, d.depends_on, CASE WHEN o.cancelled OR o.status IN ('FAILED', 'ARCHIVED') THEN 'dead'
                                     WHEN o.status IN ('PENDING', 'PAUSED', 'ABORTED') THEN 'waits' ELSE 'works' END
  FROM agent_task_dependencies d
  JOIN agent_tasks o ON o.workspace_id = $1 AND o.id = d.depends_on
 WHERE d.workspace_id = $1 AND d.task_id = ANY (ARRAY(SELECT CAST(i AS uuid) FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i))
   AND o.completed_at IS NULL;

-- name: Move
UPDATE agent_tasks AS t SET
  status = c.becomes, status_reason = c.reason, last_error = coalesce(c.error, t.last_error),
  next_attempt_at = CASE WHEN c.becomes = 'ABORTED' THEN lk_plus(lk_now(), c.wait_ms) END,
  retry_count = t.retry_count + c.retries, strikes = t.strikes + c.strikes, priority = least(10, t.priority + c.raise), raised = t.raised OR c.raise > 0,
  failed_at = CASE WHEN c.becomes = 'FAILED' THEN lk_now() ELSE t.failed_at END,
  agent_id = NULL, session_key = NULL, version = t.version + 1, updated_at = lk_now()
  FROM (SELECT * FROM jsonb_to_recordset(CAST($2 AS jsonb)) c (id uuid, was text, attempt integer, becomes text, reason text, error text, wait_ms bigint,
                                                retries integer, strikes integer, raise integer)
         LIMIT jsonb_array_length(CAST($2 AS jsonb))) c
 WHERE t.workspace_id = $1 AND t.id = c.id AND t.status = c.was AND t.attempt = c.attempt AND NOT t.cancelled;

-- name: EndAttempts
UPDATE agent_task_attempts AS a SET ended_at = lk_now(), outcome = c.outcome, error = c.error
  FROM (SELECT * FROM jsonb_to_recordset(CAST($2 AS jsonb)) c (id uuid, attempt integer, outcome text, error text)
         LIMIT jsonb_array_length(CAST($2 AS jsonb))) c
 WHERE a.workspace_id = $1 AND a.task_id = c.id AND a.number = c.attempt AND a.ended_at IS NULL AND c.outcome IS NOT NULL;

-- name: Warn
UPDATE agent_task_attempts AS a SET warned_at = lk_now()
  FROM (SELECT * FROM jsonb_to_recordset(CAST($2 AS jsonb)) c (id uuid, attempt integer)
         LIMIT jsonb_array_length(CAST($2 AS jsonb))) c
 WHERE a.workspace_id = $1 AND a.task_id = c.id AND a.number = c.attempt;

-- name: Logs
INSERT INTO agent_task_logs (workspace_id, id, task_id, level, event, message, details, previous_status, new_status, attempt, agent_id,
  session_key, actor, trace_id, created_at)
SELECT CAST($1 AS uuid), l.log, l.id, l.level, l.event, l.message, l.details, l.was, l.becomes, l.attempt, l.agent, l.session, $3, $4, lk_now()
  FROM jsonb_to_recordset(CAST($2 AS jsonb)) l (log uuid, id uuid, level text, event text, message text, details text, was text, becomes text,
                                                attempt integer, agent uuid, session text);

-- name: Done
UPDATE coordinator_commands AS c SET done_at = lk_now(), outcome = d.outcome
  FROM jsonb_to_recordset(CAST($2 AS jsonb)) d (id uuid, outcome text)
 WHERE c.workspace_id = $1 AND c.id = d.id AND c.done_at IS NULL;

-- name: Queues
-- One task of each queue of due tasks. The recursion takes one step along the index for each queue,
-- however many tasks wait in it.
WITH RECURSIVE q AS (
  (SELECT t.queue, coalesce(CAST(CAST(t.metadata AS jsonb) -> 'requiredCapabilities' AS text), '[]') AS needs
     FROM agent_tasks t WHERE t.workspace_id = $1 AND t.status = 'PENDING' ORDER BY t.queue LIMIT 1)
  UNION ALL
  SELECT n.queue, n.needs
    FROM q CROSS JOIN LATERAL (
      SELECT t.queue, coalesce(CAST(CAST(t.metadata AS jsonb) -> 'requiredCapabilities' AS text), '[]') AS needs
        FROM agent_tasks t
       WHERE t.workspace_id = $1 AND t.status = 'PENDING' AND t.queue > q.queue ORDER BY t.queue LIMIT 1) n)
SELECT queue, needs FROM q;

-- name: Candidates
-- The first $3 of each queue whose dependencies are completed and whose thread is free.
SELECT t.id, t.title, t.queue, t.priority, t.created_at, t.attempt, t.version, t.task_type, t.project_id, t.milestone_id, t.thread_id, t.metadata,
       (SELECT n.agent_id FROM agent_task_attempts n WHERE n.workspace_id = $1 AND n.task_id = t.id AND n.number = t.attempt)
  FROM jsonb_array_elements_text(CAST($2 AS jsonb)) q (name)
 CROSS JOIN LATERAL (
   SELECT c.* FROM agent_tasks c
    WHERE c.workspace_id = $1 AND c.status = 'PENDING' AND c.queue = q.name
      AND NOT EXISTS (SELECT 1 FROM agent_task_dependencies d JOIN agent_tasks o ON o.workspace_id = d.workspace_id AND o.id = d.depends_on
                       WHERE d.workspace_id = $1 AND d.task_id = c.id AND o.completed_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM agent_tasks b WHERE b.workspace_id = $1 AND b.thread_id = c.thread_id AND b.status IN ('ASSIGNED', 'RUNNING'))
    ORDER BY c.priority DESC, c.created_at, c.id
    LIMIT $3) t
 ORDER BY t.priority DESC, t.created_at, t.id
 LIMIT 20000;

-- name: Pick
-- Locks the first tasks of a list that are as they were read and that nobody else has locked.
SELECT t.id
  FROM jsonb_to_recordset(CAST($2 AS jsonb)) c (id uuid, attempt integer, version integer, place integer)
  JOIN agent_tasks t ON t.workspace_id = $1 AND t.id = c.id AND t.status = 'PENDING' AND t.attempt = c.attempt AND t.version = c.version
 ORDER BY c.place
 LIMIT $3
   FOR NO KEY UPDATE OF t SKIP LOCKED;

-- name: Assign
UPDATE agent_tasks AS t SET status = 'ASSIGNED', agent_id = c.agent, session_key = NULL, attempt = t.attempt + 1, assigned_at = lk_now(), started_at = NULL,
       status_reason = NULL, version = t.version + 1, updated_at = lk_now()
  FROM (SELECT * FROM jsonb_to_recordset(CAST($2 AS jsonb)) c (id uuid, agent uuid, attempt integer, version integer)
         LIMIT jsonb_array_length(CAST($2 AS jsonb))) c
 WHERE t.workspace_id = $1 AND t.id = c.id AND t.status = 'PENDING' AND t.attempt = c.attempt - 1 AND t.version = c.version;

-- name: Attempts
INSERT INTO agent_task_attempts (workspace_id, task_id, number, agent_id, model, started_at)
SELECT CAST($1 AS uuid), c.id, c.attempt, c.agent, nullif(c.model, ''), lk_now()
  FROM jsonb_to_recordset(CAST($2 AS jsonb)) c (id uuid, agent uuid, attempt integer, model text);
