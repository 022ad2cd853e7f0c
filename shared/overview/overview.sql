-- name: Clock
SELECT lk_now(), created_at FROM workspaces WHERE id = $1;

-- name: Beats
-- The newest beats. held says whether somebody holds their lane now.
SELECT e.id, e.trace_id, e.status, e.slot, e.created_at, e.updated_at,
       EXISTS (SELECT 1 FROM agent_locks l WHERE l.workspace_id = $1 AND l.lane = 'heartbeat' AND l.token IS NOT NULL AND l.expires_at > (SELECT lk_now()))
  FROM executions e
 WHERE e.workspace_id = $1 AND e.subject = 'heartbeat'
 ORDER BY e.created_at DESC, e.id DESC
 LIMIT $2;

-- name: PutOff
-- When a beat that was put off is due.
SELECT due_at FROM outbox
 WHERE workspace_id = $1 AND supersede_key = $2 AND status IN ('queued', 'ready')
 ORDER BY due_at
 LIMIT 1;

-- name: Phases
-- The phases of the newest beat that have ended, in order.
SELECT skill_name, duration_ms, output
  FROM agent_activity
 WHERE workspace_id = $1 AND skill_name LIKE 'heartbeat.%' AND status = 'success'
   AND trace_id = (SELECT e.trace_id FROM executions e WHERE e.workspace_id = $1 AND e.subject = 'heartbeat'
                    ORDER BY e.created_at DESC, e.id DESC LIMIT 1)
 ORDER BY created_at, id
 LIMIT $2;

-- name: Running
-- What is being worked on now, the newest first: under a lane that is held, or without a lane and heard
-- of in the last ten minutes and within its time. step, kind and skill are of the latest entry of its journal; the last two are what its
-- trace has used so far. SQLite takes a partial index only where the statement has its condition too.
SELECT e.id, e.trace_id, e.surface, e.agent, e.subject, e.input, e.created_at, s.step, s.kind,
       CASE s.kind WHEN 'call' THEN s.body ->> 'skill' WHEN 'model' THEN s.body -> 'message' -> 'calls' -> 0 ->> 'name' END,
       (SELECT CAST(coalesce(sum(u.total_tokens), 0) AS bigint) FROM agent_usage_logs u WHERE u.workspace_id = e.workspace_id AND u.trace_id = e.trace_id),
       (SELECT CAST(coalesce(sum(u.cost_micro_usd), 0) AS bigint) FROM agent_usage_logs u WHERE u.workspace_id = e.workspace_id AND u.trace_id = e.trace_id)
  FROM executions e
  LEFT JOIN agent_locks l ON l.workspace_id = e.workspace_id AND l.lane = e.subject AND l.token IS NOT NULL AND l.expires_at > (SELECT lk_now())
  LEFT JOIN execution_steps s ON s.workspace_id = e.workspace_id AND s.execution_id = e.id
   AND s.seq = (SELECT max(m.seq) FROM execution_steps m WHERE m.workspace_id = e.workspace_id AND m.execution_id = e.id)
 WHERE e.workspace_id = $1 AND e.status = 'running' AND e.status <> 'completed'
   AND (l.lane IS NOT NULL
     OR e.subject IS NULL AND e.updated_at > lk_plus((SELECT lk_now()), -1000 * CASE WHEN e.timeout_seconds < 600 THEN e.timeout_seconds ELSE 600 END))
 ORDER BY e.created_at DESC, e.id DESC
 LIMIT $2;

-- name: Held
-- The lanes that are held now, the longest held first, with what their holders work on.
SELECT l.lane, l.locked_by, l.fence, l.locked_at, l.expires_at, l.wanted_at, l.wanted_by, l.execution_id, l.trace_id,
       e.agent, e.surface, e.input, s.step, s.kind,
       CASE s.kind WHEN 'call' THEN s.body ->> 'skill' WHEN 'model' THEN s.body -> 'message' -> 'calls' -> 0 ->> 'name' END
  FROM agent_locks l
  LEFT JOIN executions e ON e.workspace_id = l.workspace_id AND e.id = l.execution_id
  LEFT JOIN execution_steps s ON s.workspace_id = e.workspace_id AND s.execution_id = e.id
   AND s.seq = (SELECT max(m.seq) FROM execution_steps m WHERE m.workspace_id = e.workspace_id AND m.execution_id = e.id)
 WHERE l.workspace_id = $1 AND l.token IS NOT NULL AND l.expires_at > (SELECT lk_now())
 ORDER BY l.locked_at, l.lane
 LIMIT $2;

-- name: Lanes
-- How many lanes are held, how many of them have been wanted for over $2 milliseconds, and the one that
-- has been wanted for longest.
WITH held AS MATERIALIZED (
  SELECT lane, wanted_at FROM agent_locks WHERE workspace_id = $1 AND token IS NOT NULL AND expires_at > (SELECT lk_now())
)
SELECT count(*), count(CASE WHEN wanted_at < lk_plus((SELECT lk_now()), 0 - CAST($2 AS bigint)) THEN 1 END), min(wanted_at),
       (SELECT lane FROM held WHERE wanted_at IS NOT NULL ORDER BY wanted_at, lane LIMIT 1)
  FROM held;

-- name: Calls
-- The newest $3 calls of skills and models within $2 milliseconds: how many, and how many succeeded. The ends
-- of runs, turns and deliveries are no calls.
SELECT count(*), count(CASE WHEN status = 'success' THEN 1 END)
  FROM (SELECT a.status FROM agent_activity a
         WHERE a.workspace_id = $1 AND a.created_at > lk_plus((SELECT lk_now()), 0 - CAST($2 AS bigint))
           AND a.skill_name <> '(unknown)' AND a.skill_name NOT LIKE '%.%' AND a.skill_name <> 'heartbeat'
           AND (a.skill_id IS NOT NULL OR a.skill_name NOT IN ('reason', 'operate', 'chat', 'webhook'))
           AND (a.status = 'success' OR a.status = 'error' AND a.output ->> 'refused' IS NULL)
         ORDER BY a.created_at DESC
         LIMIT $3) AS calls;

-- name: Models
-- How many circuits of models there are, and how many of them are open, if no model has answered since.
-- A model that has never failed has no circuit.
SELECT c.n, CASE WHEN (SELECT max(u.created_at) FROM agent_usage_logs u WHERE u.workspace_id = $1) > c.opened THEN 0 ELSE c.down END
  FROM (SELECT count(*) AS n, count(CASE WHEN state IN ('open', 'paused') AND retry_at > (SELECT lk_now()) THEN 1 END) AS down,
               max(CASE WHEN state IN ('open', 'paused') AND retry_at > (SELECT lk_now()) THEN opened_at END) AS opened
          FROM provider_circuits WHERE workspace_id = $1) AS c;

-- name: Heals
SELECT id, skill, code, failures, created_at, count(*) OVER ()
  FROM heals
 WHERE workspace_id = $1 AND status = 'active'
 ORDER BY created_at DESC, id DESC
 LIMIT $2;

-- name: Agents
-- How many agents there are, and those that are not well.
SELECT a.id, a.name, a.status, a.last_seen_at, a.updated_at, c.agents, count(*) OVER ()
  FROM (SELECT count(*) AS agents FROM agents t WHERE t.workspace_id = $1 AND t.terminated_at IS NULL) AS c
  LEFT JOIN agents a ON a.workspace_id = $1 AND a.terminated_at IS NULL AND a.status IN ('DEGRADED', 'ERROR')
 ORDER BY a.id
 LIMIT $2;

-- name: Cycle
SELECT last_cycle_at, took_ms FROM coordinator_cycles WHERE workspace_id = $1;

-- name: Tasks
-- How many tasks work and have failed, and why the others wait. Of those that are PENDING the newest $2
-- are counted. Those that could begin are counted for each queue: which agents can do them depends on it.
SELECT t.code, t.queue, count(*), min(t.created_at), min(t.id)
  FROM (SELECT w.code, CASE w.code WHEN 'no_agent' THEN w.queue END AS queue, w.created_at, CAST(w.id AS text) AS id
          FROM (SELECT CASE
                 WHEN EXISTS (SELECT 1 FROM agent_task_dependencies d
                                JOIN agent_tasks o ON o.workspace_id = d.workspace_id AND o.id = d.depends_on
                               WHERE d.workspace_id = $1 AND d.task_id = p.id AND o.completed_at IS NULL
                                 AND (o.status IN ('FAILED', 'ARCHIVED') OR o.cancelled)) THEN 'dependency_failed'
                 WHEN EXISTS (SELECT 1 FROM agent_task_dependencies d
                                JOIN agent_tasks o ON o.workspace_id = d.workspace_id AND o.id = d.depends_on
                               WHERE d.workspace_id = $1 AND d.task_id = p.id AND o.completed_at IS NULL) THEN 'dependency'
                 WHEN EXISTS (SELECT 1 FROM agent_tasks o WHERE o.workspace_id = $1 AND o.thread_id = p.thread_id
                                 AND o.status IN ('ASSIGNED', 'RUNNING')) THEN 'thread'
                 ELSE 'no_agent' END AS code, p.queue, p.created_at, p.id
                  FROM (SELECT id, thread_id, queue, created_at FROM agent_tasks
                         WHERE workspace_id = $1 AND status = 'PENDING'
                         ORDER BY created_at DESC, id DESC LIMIT $2) AS p) AS w
         UNION ALL
        SELECT CASE status WHEN 'PAUSED' THEN 'paused' WHEN 'FAILED' THEN 'failed' WHEN 'ABORTED' THEN 'backoff' ELSE 'running' END,
               NULL, created_at, NULL
          FROM agent_tasks
         WHERE workspace_id = $1 AND (status IN ('ASSIGNED', 'RUNNING', 'PAUSED', 'FAILED') OR status = 'ABORTED' AND NOT cancelled)) AS t
 GROUP BY t.code, t.queue
 ORDER BY t.code, t.queue;

-- name: Working
-- The task that was begun last, of those that agents work on and whose run waits for no person.
SELECT t.id, t.title, t.current_step, a.name
  FROM agent_tasks t
  LEFT JOIN agents a ON a.workspace_id = t.workspace_id AND a.id = t.agent_id
 WHERE t.workspace_id = $1 AND t.status = 'RUNNING'
   AND 'task:' || CAST(t.id AS text) NOT IN (SELECT e.subject FROM executions e
                                              WHERE e.workspace_id = $1 AND e.status = 'waiting' AND e.subject IS NOT NULL)
 ORDER BY t.created_at DESC, t.id DESC
 LIMIT 1;

-- name: Approvals
SELECT id, skill, arguments, agent, requested_at, expires_at, count(*) OVER (), min(requested_at) OVER ()
  FROM approvals
 WHERE workspace_id = $1 AND status = 'pending' AND expires_at > (SELECT lk_now())
 ORDER BY expires_at, id
 LIMIT $2;

-- name: Today
-- What was used since the beginning of the day: by all, and by beats.
SELECT count(*), CAST(coalesce(sum(total_tokens), 0) AS bigint), CAST(coalesce(sum(cost_micro_usd), 0) AS bigint),
       CAST(coalesce(sum(CASE WHEN surface = 'hb' THEN total_tokens END), 0) AS bigint),
       CAST(coalesce(sum(CASE WHEN surface = 'hb' THEN cost_micro_usd END), 0) AS bigint)
  FROM agent_usage_logs
 WHERE workspace_id = $1 AND created_at >= $2;
