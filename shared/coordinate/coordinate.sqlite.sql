-- why: SQLite has one writer, so that nothing needs a lock, and its own functions for JSON.

-- name: LockDoubtful
SELECT a.id FROM agents a
 WHERE a.workspace_id = $1
   AND (a.id IN (SELECT c.agent_id FROM coordinator_commands c WHERE c.workspace_id = $1 AND c.done_at IS NULL)
     OR a.terminated_at IS NULL
        AND (a.last_seen_at < lk_plus((SELECT lk_now()), a.heartbeat_interval_seconds * -2000)
          OR a.last_seen_at < lk_plus((SELECT lk_now()), a.stale_threshold_seconds * -1000)
          OR a.status = 'DRAINING'
          OR a.status IN ('IDLE', 'WORKING')
             AND (a.status = 'WORKING') <> EXISTS (SELECT 1 FROM agent_task_attempts o WHERE o.workspace_id = $1 AND o.agent_id = a.id AND o.ended_at IS NULL)))
 ORDER BY a.id;

-- name: LockAgents
SELECT a.id FROM agents a
 WHERE a.workspace_id = $1 AND a.terminated_at IS NULL AND a.coordinator_enabled AND a.status IN ('IDLE', 'WORKING')
   AND a.id BETWEEN $2 AND $3
 ORDER BY a.id;

-- name: UpdateAgents
WITH c AS MATERIALIZED (SELECT e.value ->> 'id' AS id, e.value ->> 'was' AS was, e.value ->> 'becomes' AS becomes,
                 e.value ->> 'health' AS health, e.value ->> 'pause' AS pause, e.value ->> 'reason' AS reason
            FROM json_each($2) e)
UPDATE agents AS a SET
  status = c.becomes, health = coalesce(c.health, a.health), coordinator_enabled = a.coordinator_enabled AND NOT c.pause,
  idle_since = CASE WHEN c.becomes = 'IDLE' THEN coalesce(a.idle_since, lk_now()) WHEN c.becomes = 'WORKING' THEN NULL ELSE a.idle_since END,
  terminated_at = CASE WHEN c.becomes = 'TERMINATED' THEN lk_now() ELSE a.terminated_at END,
  termination_reason = coalesce(c.reason, a.termination_reason), updated_at = lk_now(),
  version = a.version + (a.coordinator_enabled AND c.pause)
  FROM c
 WHERE a.workspace_id = $1 AND a.id = c.id AND a.status = c.was
   AND a.id IN (SELECT i.value ->> 'id' FROM json_each($2) i);

-- name: LockTasks
SELECT t.id FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.id IN (
   SELECT w.id FROM (SELECT w.id FROM agent_tasks w LEFT JOIN agents a ON a.workspace_id = w.workspace_id AND a.id = w.agent_id
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
                            WHERE o.workspace_id = $1 AND o.key = 'worker:' || w.id AND o.status IN ('queued', 'ready', 'sending'))
        OR a.spawner <> 'builtin'
           AND EXISTS (SELECT 1 FROM kill_switches k
                        WHERE k.workspace_id = $1 AND k.released_at IS NULL
                          AND (k.scope = 'workspace' OR k.scope = 'agent' AND k.target IN (a.name, CAST(a.id AS text)))))
     LIMIT 5000) w
   UNION ALL
   SELECT b.id FROM (SELECT b.id FROM agent_tasks b WHERE b.workspace_id = $1 AND b.next_attempt_at <= (SELECT lk_now()) LIMIT 5000) b
   UNION ALL
   SELECT i.value FROM json_each($2) i)
 ORDER BY t.id;

-- name: LockThese
SELECT t.id FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.id IN (SELECT i.value FROM json_each($2) i)
 ORDER BY t.id;

-- name: Doubtful
SELECT t.id, t.title, t.status, t.status_reason, t.cancelled, t.attempt, t.agent_id, t.session_key, t.retry_count, t.max_retries,
       t.retry_backoff_seconds, t.priority, t.strikes, t.raised, t.thread_id, a.id IS NULL OR a.status IN ('ERROR', 'TERMINATED'),
       coalesce(a.status, ''), coalesce(a.spawner, ''),
       coalesce(t.next_attempt_at <= lk_now(), false), coalesce(t.assigned_at <= lk_plus(lk_now(), $3), false),
       coalesce(lk_plus(t.started_at, coalesce(t.estimated_duration_minutes, 0) * CAST(60000 AS bigint)) <= lk_plus(lk_now(), $4)
         AND coalesce(t.estimated_completion_at <= lk_plus(lk_now(), $4), t.estimated_duration_minutes IS NOT NULL), false)
         AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = $1 AND e.subject = 'task:' || t.id AND e.status = 'waiting'),
       n.warned_at IS NOT NULL,
       coalesce(n.warned_at <= lk_plus(lk_now(), $7) AND t.updated_at <= lk_plus(lk_now(), $7), false)
         AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.workspace_id = $1 AND e.subject = 'task:' || t.id
                            AND e.status = 'running' AND e.updated_at > lk_plus(lk_now(), $7)),
       a.last_seen_at IS NULL AND @watched AND t.updated_at <= lk_plus(lk_now(), @silence)
         AND NOT EXISTS (SELECT 1 FROM agent_usage_logs u
                          WHERE u.workspace_id = $1 AND u.task_id = t.id AND u.created_at > lk_plus(lk_now(), @silence))
         AND NOT EXISTS (SELECT 1 FROM agent_task_logs g
                          WHERE g.workspace_id = $1 AND g.task_id = t.id AND g.created_at > lk_plus(lk_now(), @silence)
                            AND g.attempt = t.attempt AND g.event = 'progress_update'),
       coalesce(a.spawner = 'builtin', false) AND t.updated_at <= lk_plus(lk_now(), $3)
         AND NOT EXISTS (SELECT 1 FROM outbox o
                          WHERE o.workspace_id = $1 AND o.key = 'worker:' || t.id AND o.status IN ('queued', 'ready', 'sending')),
       coalesce(a.spawner <> 'builtin', false)
         AND EXISTS (SELECT 1 FROM kill_switches k
                      WHERE k.workspace_id = $1 AND k.released_at IS NULL
                        AND (k.scope = 'workspace' OR k.scope = 'agent' AND k.target IN (a.name, CAST(a.id AS text)))),
       (SELECT o.status FROM outbox o WHERE o.workspace_id = $1 AND o.key = 'task:' || t.id || ':' || CAST(t.attempt AS text))
  FROM agent_tasks t
  LEFT JOIN agents a ON a.workspace_id = t.workspace_id AND a.id = t.agent_id
  LEFT JOIN agent_task_attempts n ON n.workspace_id = t.workspace_id AND n.task_id = t.id AND n.number = t.attempt
 WHERE t.workspace_id = $1 AND t.id IN (SELECT i.value FROM json_each($2) i)
 ORDER BY t.id;

-- name: Waiting
SELECT d.task_id, d.depends_on, CASE WHEN o.cancelled OR o.status IN ('FAILED', 'ARCHIVED') THEN 'dead'
                                     WHEN o.status IN ('PENDING', 'PAUSED', 'ABORTED') THEN 'waits' ELSE 'works' END
  FROM agent_tasks t
 CROSS JOIN agent_task_dependencies d ON d.workspace_id = $1 AND d.task_id = t.id
 CROSS JOIN agent_tasks o ON o.workspace_id = $1 AND o.id = d.depends_on
 WHERE t.workspace_id = $1 AND t.status IN ('PENDING', 'PAUSED', 'ABORTED') AND (t.status <> 'ABORTED' OR t.next_attempt_at IS NOT NULL)
   AND NOT t.cancelled AND o.completed_at IS NULL;

-- name: WaitingOf
SELECT d.task_id, d.depends_on, CASE WHEN o.cancelled OR o.status IN ('FAILED', 'ARCHIVED') THEN 'dead'
                                     WHEN o.status IN ('PENDING', 'PAUSED', 'ABORTED') THEN 'waits' ELSE 'works' END
  FROM json_each($2) i
 CROSS JOIN agent_task_dependencies d ON d.workspace_id = $1 AND d.task_id = i.value
 CROSS JOIN agent_tasks o ON o.workspace_id = $1 AND o.id = d.depends_on
 WHERE o.completed_at IS NULL;

-- name: Move
WITH c AS MATERIALIZED (SELECT e.value ->> 'id' AS id, e.value ->> 'was' AS was, e.value ->> 'attempt' AS attempt,
                 e.value ->> 'becomes' AS becomes, e.value ->> 'reason' AS reason,
                 e.value ->> 'error' AS error, e.value ->> 'wait_ms' AS wait_ms,
                 e.value ->> 'retries' AS retries, e.value ->> 'strikes' AS strikes,
                 e.value ->> 'raise' AS raise
            FROM json_each($2) e)
UPDATE agent_tasks AS t SET
  status = c.becomes, status_reason = c.reason, last_error = coalesce(c.error, t.last_error),
  next_attempt_at = CASE WHEN c.becomes = 'ABORTED' THEN lk_plus(lk_now(), c.wait_ms) END,
  retry_count = t.retry_count + c.retries, strikes = t.strikes + c.strikes, priority = min(10, t.priority + c.raise), raised = t.raised OR c.raise > 0,
  failed_at = CASE WHEN c.becomes = 'FAILED' THEN lk_now() ELSE t.failed_at END,
  agent_id = NULL, session_key = NULL, version = t.version + 1, updated_at = lk_now()
  FROM c
 WHERE t.workspace_id = $1 AND t.id = c.id AND t.status = c.was AND t.attempt = c.attempt AND NOT t.cancelled
   AND t.id IN (SELECT i.value ->> 'id' FROM json_each($2) i);

-- name: EndAttempts
WITH c AS MATERIALIZED (SELECT e.value ->> 'id' AS id, e.value ->> 'attempt' AS attempt, e.value ->> 'outcome' AS outcome,
                 e.value ->> 'error' AS error
            FROM json_each($2) e)
UPDATE agent_task_attempts AS a SET ended_at = lk_now(), outcome = c.outcome, error = c.error
  FROM c
 WHERE a.workspace_id = $1 AND a.task_id = c.id AND a.number = c.attempt AND a.ended_at IS NULL AND c.outcome IS NOT NULL
   AND a.task_id IN (SELECT i.value ->> 'id' FROM json_each($2) i);

-- name: Warn
WITH c AS MATERIALIZED (SELECT e.value ->> 'id' AS id, e.value ->> 'attempt' AS attempt
            FROM json_each($2) e)
UPDATE agent_task_attempts AS a SET warned_at = lk_now()
  FROM c
 WHERE a.workspace_id = $1 AND a.task_id = c.id AND a.number = c.attempt
   AND a.task_id IN (SELECT i.value ->> 'id' FROM json_each($2) i);

-- name: Logs
INSERT INTO agent_task_logs (workspace_id, id, task_id, level, event, message, details, previous_status, new_status, attempt, agent_id,
  session_key, actor, trace_id, created_at)
SELECT $1, l.log, l.id, l.level, l.event, l.message, l.details, l.was, l.becomes, l.attempt, l.agent, l.session, $3, $4, lk_now()
  FROM (SELECT e.value ->> 'log' AS log, e.value ->> 'id' AS id, e.value ->> 'level' AS level,
               e.value ->> 'event' AS event, e.value ->> 'message' AS message,
               e.value ->> 'details' AS details, e.value ->> 'was' AS was, e.value ->> 'becomes' AS becomes,
               e.value ->> 'attempt' AS attempt, e.value ->> 'agent' AS agent,
               e.value ->> 'session' AS session
          FROM json_each($2) e) l;

-- name: Done
WITH d AS MATERIALIZED (SELECT e.value ->> 'id' AS id, e.value ->> 'outcome' AS outcome
            FROM json_each($2) e)
UPDATE coordinator_commands AS c SET done_at = lk_now(), outcome = d.outcome
  FROM d
 WHERE c.workspace_id = $1 AND c.id = d.id AND c.done_at IS NULL
   AND c.id IN (SELECT i.value ->> 'id' FROM json_each($2) i);

-- name: Queues
WITH RECURSIVE q (queue) AS (
  SELECT min(t.queue) FROM agent_tasks t WHERE t.workspace_id = $1 AND t.status = 'PENDING'
  UNION ALL
  SELECT (SELECT min(t.queue) FROM agent_tasks t WHERE t.workspace_id = $1 AND t.status = 'PENDING' AND t.queue > q.queue) FROM q WHERE q.queue IS NOT NULL)
SELECT q.queue,
       coalesce((SELECT t.metadata ->> 'requiredCapabilities' FROM agent_tasks t
                  WHERE t.workspace_id = $1 AND t.status = 'PENDING' AND t.queue = q.queue LIMIT 1), '[]')
  FROM q
 WHERE q.queue IS NOT NULL;

-- name: Candidates
SELECT t.id, t.title, t.queue, t.priority, t.created_at, t.attempt, t.version, t.task_type, t.project_id, t.milestone_id, t.thread_id, t.metadata,
       (SELECT n.agent_id FROM agent_task_attempts n WHERE n.workspace_id = $1 AND n.task_id = t.id AND n.number = t.attempt)
  FROM json_each($2) q
 CROSS JOIN json_each((SELECT json_group_array(i.id) FROM (
   SELECT c.id FROM agent_tasks c
    WHERE c.workspace_id = $1 AND c.status = 'PENDING' AND c.queue = q.value
      AND NOT EXISTS (SELECT 1 FROM agent_task_dependencies d JOIN agent_tasks o ON o.workspace_id = d.workspace_id AND o.id = d.depends_on
                       WHERE d.workspace_id = $1 AND d.task_id = c.id AND o.completed_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM agent_tasks b WHERE b.workspace_id = $1 AND b.thread_id = c.thread_id AND b.status IN ('ASSIGNED', 'RUNNING'))
    ORDER BY c.priority DESC, c.created_at, c.id
    LIMIT $3) i)) p
 CROSS JOIN agent_tasks t
 WHERE t.workspace_id = $1 AND t.id = p.value
 ORDER BY t.priority DESC, t.created_at, t.id
 LIMIT 20000;

-- name: Pick
SELECT t.id
  FROM (SELECT e.value ->> 'id' AS id, e.value ->> 'attempt' AS attempt, e.value ->> 'version' AS version,
               e.value ->> 'place' AS place
          FROM json_each($2) e) c
 CROSS JOIN agent_tasks t ON t.workspace_id = $1 AND t.id = c.id AND t.status = 'PENDING' AND t.attempt = c.attempt AND t.version = c.version
 ORDER BY c.place
 LIMIT $3;

-- name: Assign
WITH c AS MATERIALIZED (SELECT e.value ->> 'id' AS id, e.value ->> 'agent' AS agent, e.value ->> 'attempt' AS attempt,
                 e.value ->> 'version' AS version
            FROM json_each($2) e)
UPDATE agent_tasks AS t SET status = 'ASSIGNED', agent_id = c.agent, session_key = NULL, attempt = t.attempt + 1, assigned_at = lk_now(), started_at = NULL,
       status_reason = NULL, version = t.version + 1, updated_at = lk_now()
  FROM c
 WHERE t.workspace_id = $1 AND t.id = c.id AND t.status = 'PENDING' AND t.attempt = c.attempt - 1 AND t.version = c.version
   AND t.id IN (SELECT i.value ->> 'id' FROM json_each($2) i);

-- name: Attempts
INSERT INTO agent_task_attempts (workspace_id, task_id, number, agent_id, model, started_at)
SELECT $1, c.id, c.attempt, c.agent, nullif(c.model, ''), lk_now()
  FROM (SELECT e.value ->> 'id' AS id, e.value ->> 'agent' AS agent, e.value ->> 'attempt' AS attempt,
               e.value ->> 'model' AS model
          FROM json_each($2) e) c;
