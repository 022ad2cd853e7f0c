-- part: columns
t.id, t.title, t.description, t.task_type, t.status, t.status_reason, t.cancelled, t.priority, t.agent_id, t.session_key, t.attempt,
       t.progress_percent, t.current_step, t.estimated_duration_minutes, t.estimated_completion_at, t.retry_count, t.max_retries,
       t.retry_backoff_seconds, t.next_attempt_at, t.last_error, t.summary, t.metadata, t.checkpoint_version, t.tags, t.project_id,
       t.milestone_id, t.thread_id, t.trust = 'outside', t.version, t.created_by, t.created_at, t.updated_at, t.assigned_at, t.started_at,
       t.completed_at, t.failed_at, coalesce(t.next_attempt_at <= lk_now(), false),
       t.updated_at <= lk_plus(lk_now(), -1000)

-- part: dependsOn
(SELECT string_agg(CAST(d.depends_on AS text), ',' ORDER BY d.depends_on)
          FROM agent_task_dependencies d WHERE d.workspace_id = $1 AND d.task_id = t.id)

-- part: blocks
(SELECT string_agg(CAST(d.task_id AS text), ',' ORDER BY d.task_id)
          FROM agent_task_dependencies d WHERE d.workspace_id = $1 AND d.depends_on = t.id)

-- part: row
-- Only where $3 says so are the edges read, and the columns that may be large.
@columns,
       CASE WHEN $3 THEN @dependsOn END,
       CASE WHEN $3 THEN @blocks END,
       CASE WHEN $3 THEN t.input_context END, CASE WHEN $3 THEN t.output_result END, CASE WHEN $3 THEN t.checkpoint_data END

-- name: Get
SELECT @row
  FROM agent_tasks t
 WHERE t.workspace_id = $1 AND t.id = $2;

-- part: listed
-- $8 is one of the tags in $10, which has commas around each, and $9 is their number.
SELECT @columns,
       @dependsOn,
       @blocks,
       CAST(NULL AS text), CAST(NULL AS text), CAST(NULL AS text)
  FROM agent_tasks t
 WHERE t.workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR t.status = $2)
   AND t.priority BETWEEN $3 AND $4
   AND (CAST($5 AS uuid) IS NULL OR t.agent_id = $5)
   AND (CAST($6 AS text) IS NULL OR t.task_type = $6)
   AND (CAST($7 AS uuid) IS NULL OR t.thread_id = $7)
   AND (CAST($8 AS text) IS NULL OR t.id IN (SELECT g.task_id FROM agent_task_tags g WHERE g.workspace_id = $1 AND g.tag = $8))
   AND (CAST($9 AS integer) < 2 OR (SELECT count(*) FROM agent_task_tags g
         WHERE g.workspace_id = $1 AND g.task_id = t.id AND replace(CAST($10 AS text), ',' || g.tag || ',', '') <> $10) = $9)
   AND (CAST($11 AS text) IS NULL OR lower(t.title || ' ' || t.description) LIKE lower(CAST($11 AS text)) ESCAPE '\')
   AND t.created_at > $12 AND t.created_at < $13
   AND (CAST($14 AS uuid) IS NULL OR t.project_id = $14)
   AND (CAST($15 AS uuid) IS NULL OR t.milestone_id = $15)

-- name: List
-- The newest first.
@listed
   AND (t.created_at, t.id) < ($16, $17)
 ORDER BY t.created_at DESC, t.id DESC
 LIMIT $18;

-- name: ListOldest
@listed
   AND (t.created_at, t.id) > ($16, $17)
 ORDER BY t.created_at, t.id
 LIMIT $18;

-- name: ListUrgent
-- The highest priority first, then the oldest: the order in which agents get tasks.
@listed
   AND (t.priority < $18 OR t.priority = $18 AND (t.created_at, t.id) > ($16, $17))
 ORDER BY t.priority DESC, t.created_at, t.id
 LIMIT $19;

-- name: DeleteTags
DELETE FROM agent_task_tags WHERE workspace_id = $1 AND task_id = $2;

-- name: Patch
UPDATE agent_tasks SET title = $3, description = $4, priority = $5, tags = $6, estimated_completion_at = $7, max_retries = $8,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2;

-- name: Unwarn
-- The agent is warned again once the task is late by its new estimate.
UPDATE agent_task_attempts SET warned_at = NULL WHERE workspace_id = $1 AND task_id = $2 AND number = $3 AND warned_at IS NOT NULL;

-- name: Touch
UPDATE agent_tasks SET version = version + 1, updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: Pause
-- Each of the following changes a task only from the status and the attempt that were read.
UPDATE agent_tasks SET status = 'PAUSED', status_reason = $5, agent_id = NULL, session_key = NULL, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = $3 AND attempt = $4;

-- name: Resume
UPDATE agent_tasks SET status = 'PENDING', status_reason = NULL, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = $3 AND attempt = $4;

-- name: Cancel
UPDATE agent_tasks SET status = 'ABORTED', cancelled = true, status_reason = $5, agent_id = NULL, session_key = NULL, next_attempt_at = NULL,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = $3 AND attempt = $4 AND NOT cancelled;

-- name: Retry
UPDATE agent_tasks SET status = 'PENDING', status_reason = NULL, retry_count = 0, strikes = 0, raised = false, next_attempt_at = NULL, failed_at = NULL,
       progress_percent = 0, current_step = NULL, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = $3 AND attempt = $4 AND NOT cancelled;

-- name: Archive
UPDATE agent_tasks SET status = 'ARCHIVED', next_attempt_at = NULL, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = $3 AND attempt = $4;

-- name: Abort
UPDATE agent_tasks SET status = 'ABORTED', last_error = $5, next_attempt_at = lk_plus(lk_now(), CAST($6 AS bigint)), retry_count = retry_count + CAST($7 AS integer),
       agent_id = NULL, session_key = NULL, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = $3 AND attempt = $4;

-- name: Fail
UPDATE agent_tasks SET status = 'FAILED', last_error = $5, failed_at = lk_now(), agent_id = NULL, session_key = NULL,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = $3 AND attempt = $4;

-- name: Unassign
UPDATE agent_tasks SET status = 'PENDING', agent_id = NULL, session_key = NULL, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = $3 AND attempt = $4;

-- name: Progress
UPDATE agent_tasks SET progress_percent = coalesce($5, progress_percent), current_step = coalesce($6, current_step),
       checkpoint_data = coalesce($7, checkpoint_data), checkpoint_version = checkpoint_version + CASE WHEN CAST($7 AS text) IS NULL THEN 0 ELSE 1 END,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = $3 AND attempt = $4;

-- name: EndAttempt
UPDATE agent_task_attempts SET ended_at = lk_now(), outcome = $4, error = $5
 WHERE workspace_id = $1 AND task_id = $2 AND number = $3 AND ended_at IS NULL;

-- name: LatestOf
SELECT coalesce(max(number), 0) FROM agent_task_attempts WHERE workspace_id = $1 AND task_id = $2 AND agent_id = $3;

-- name: EndedLately
SELECT agent_id, session_key FROM agent_task_attempts
 WHERE workspace_id = $1 AND task_id = $2 AND number = $3 AND ended_at > lk_plus(lk_now(), 0 - CAST($4 AS bigint));

-- name: HeardLately
-- Whether it was logged lately how far an attempt is: in the last ten minutes, or in a third of the time after which its
-- agent counts as gone, where reports are all that is heard of it.
SELECT EXISTS (SELECT 1 FROM agent_task_logs
                WHERE workspace_id = $1 AND task_id = $2
                  AND created_at > (SELECT lk_plus(lk_now(), coalesce((
                        SELECT CASE WHEN a.stale_threshold_seconds < 1800 THEN a.stale_threshold_seconds * -333 ELSE -600000 END
                          FROM agents a
                         WHERE a.workspace_id = $1 AND a.id = $4 AND a.spawner = 'pull' AND a.last_seen_at IS NULL), -600000)))
                  AND attempt = $3 AND event = 'progress_update');

-- name: NoteCheckpoint
UPDATE agent_task_attempts SET checkpoint_version = $4 WHERE workspace_id = $1 AND task_id = $2 AND number = $3;

-- name: DeleteEdges
DELETE FROM agent_task_dependencies WHERE workspace_id = $1 AND task_id = $2;

-- name: Conflict
-- The id says which task and which attempt, so that each is noted once.
INSERT INTO agent_task_logs (workspace_id, id, task_id, level, event, message, details, attempt, agent_id, actor, trace_id, created_at)
VALUES ($1, $2, $3, 'WARN', 'conflict', $4, $5, $6,
  (SELECT a.agent_id FROM agent_task_attempts a WHERE a.workspace_id = $1 AND a.task_id = $3 AND a.number = $6), $7, $8, lk_now())
ON CONFLICT DO NOTHING;

-- name: Logs
SELECT id, level, event, message, details, previous_status, new_status, attempt, agent_id, session_key, stack_trace, actor, trace_id, created_at
  FROM agent_task_logs
 WHERE workspace_id = $1 AND task_id = $2
   AND (CAST($3 AS text) IS NULL OR level = $3)
   AND (CAST($4 AS text) IS NULL OR event = $4)
   AND (created_at, id) < ($5, $6)
 ORDER BY created_at DESC, id DESC
 LIMIT $7;

-- name: OpenDependencies
-- A task that was completed and then archived is done, too. The dependencies that can't be completed
-- any more come first. The last column counts all of them.
SELECT o.id, o.title, o.status, o.cancelled, count(*) OVER ()
  FROM agent_task_dependencies d
  JOIN agent_tasks o ON o.workspace_id = d.workspace_id AND o.id = d.depends_on
 WHERE d.workspace_id = $1 AND d.task_id = $2 AND o.completed_at IS NULL
 ORDER BY CASE WHEN o.cancelled OR o.status IN ('FAILED', 'ARCHIVED') THEN 0 ELSE 1 END, o.created_at, o.id
 LIMIT $3;

-- name: ThreadTask
-- The active task of a task's thread.
SELECT o.id, o.title, o.status
  FROM agent_tasks t
  JOIN agent_tasks o ON o.workspace_id = t.workspace_id AND o.thread_id = t.thread_id AND o.status IN ('ASSIGNED', 'RUNNING') AND o.id <> t.id
 WHERE t.workspace_id = $1 AND t.id = $2;

-- name: OfEntry
SELECT task_id, coalesce(attempt, 0) FROM agent_task_logs WHERE workspace_id = $1 AND id = $2;

-- name: Origin
-- The trace in which a task was created.
SELECT trace_id FROM agent_task_logs
 WHERE workspace_id = $1 AND task_id = $2 AND event = 'created' AND trace_id IS NOT NULL
 ORDER BY created_at
 LIMIT 1;

-- name: Wanted
SELECT count(*) FROM agent_tasks WHERE workspace_id = $1 AND id = $2 AND attempt = $3 AND status IN ('ASSIGNED', 'RUNNING');

-- name: SealedInput
SELECT sealed_input FROM agent_tasks WHERE workspace_id = $1 AND id = $2 AND sealed_input IS NOT NULL;

-- name: SealedInputs
SELECT id, sealed_input FROM agent_tasks
 WHERE workspace_id = $1 AND id > $2 AND sealed_input IS NOT NULL
 ORDER BY id
 LIMIT $3;

-- name: ResealInput
-- Only what was read is replaced.
UPDATE agent_tasks SET sealed_input = $3 WHERE workspace_id = $1 AND id = $2 AND sealed_input = $4;
