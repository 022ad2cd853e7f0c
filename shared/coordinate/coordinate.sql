-- name: State
-- When the last cycle ended, since when cycles have followed each other, when one last set the pace of budgets, and
-- the settings.
SELECT c.last_cycle_at, c.watching_since, c.paced_at, w.settings, lk_now()
  FROM workspaces w
  LEFT JOIN coordinator_cycles c ON c.workspace_id = w.id
 WHERE w.id = $1;

-- part: silence
-- How far back the last sign of a task lies whose agent has never sent a heartbeat and is gone: one that claims its tasks
-- was there when it did.
CASE a.spawner WHEN 'pull' THEN a.stale_threshold_seconds * CAST(-1000 AS bigint) ELSE $5 END

-- part: watched
-- Whether it could have been heard since: cycles have followed each other for $6 milliseconds.
coalesce(a.spawner <> 'pull' OR a.stale_threshold_seconds * CAST(1000 AS bigint) <= $6, true)

-- name: Agents
-- The agents of a range that are not terminated, and those that still have an attempt, with what they work on. One
-- plan serves one agent and all of them.
SELECT a.id, a.name, a.status, a.capabilities, a.coordinator_enabled, a.max_concurrent_tasks, a.heartbeat_interval_seconds,
       a.stale_threshold_seconds, a.spawner, a.spawner_target, a.health, a.last_seen_at, a.idle_since,
       (SELECT count(*) FROM agent_task_attempts o WHERE o.workspace_id = $1 AND o.agent_id = a.id AND o.ended_at IS NULL),
       (SELECT max(t.started_at)
          FROM agent_task_attempts o JOIN agent_tasks t ON t.workspace_id = o.workspace_id AND t.id = o.task_id AND t.status = 'RUNNING'
         WHERE o.workspace_id = $1 AND o.agent_id = a.id AND o.ended_at IS NULL),
       EXISTS (SELECT 1 FROM kill_switches k
                WHERE k.workspace_id = $1 AND k.released_at IS NULL AND k.scope = 'agent' AND k.target IN (a.name, CAST(a.id AS text))),
       CASE a.spawner WHEN 'builtin' THEN
         (SELECT min(l.expires_at) FROM agent_task_attempts o
            JOIN agent_locks l ON l.workspace_id = o.workspace_id AND l.lane = 'task:' || CAST(o.task_id AS text) AND l.token IS NOT NULL
           WHERE o.workspace_id = $1 AND o.agent_id = a.id AND o.ended_at IS NULL) END,
       lk_now()
  FROM agents a
 WHERE a.workspace_id = $1
   AND a.id BETWEEN $2 AND $3
   AND (a.terminated_at IS NULL OR a.id IN (SELECT o.agent_id FROM agent_task_attempts o WHERE o.workspace_id = $1 AND o.ended_at IS NULL))
 ORDER BY a.id;

-- name: Halted
SELECT EXISTS (SELECT 1 FROM kill_switches WHERE workspace_id = $1 AND released_at IS NULL AND scope = 'workspace');

-- name: HaltedAgent
-- Whether a kill switch stops the workspace or an agent, by its name or its id.
SELECT EXISTS (SELECT 1 FROM kill_switches
                WHERE workspace_id = $1 AND released_at IS NULL AND (scope = 'workspace' OR scope = 'agent' AND target IN ($2, $3)));

-- name: Circuits
SELECT target, failures, open_until, coalesce(open_until > lk_now(), false), last_error FROM spawner_circuits WHERE workspace_id = $1 AND failures > 0;

-- name: Commands
SELECT id, command, agent_id, task_id, reason, created_by
  FROM coordinator_commands
 WHERE workspace_id = $1 AND done_at IS NULL
 ORDER BY id
 LIMIT 100;

-- name: Command
INSERT INTO coordinator_commands (workspace_id, id, command, agent_id, task_id, reason, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, lk_now());

-- name: Counts
SELECT (SELECT count(*) FROM agent_tasks WHERE workspace_id = $1 AND status = 'PENDING'),
       (SELECT count(*) FROM agent_tasks WHERE workspace_id = $1 AND status = 'RUNNING');

-- name: Record
INSERT INTO coordinator_cycles (workspace_id, cycles, last_cycle_at, watching_since, took_ms, instance_id, reason, pending, running, healthy,
  stale, assigned, recovered, failed, paced_at)
VALUES ($1, 1, lk_now(), coalesce($2, lk_now()), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN $13 THEN lk_now() END)
ON CONFLICT (workspace_id) DO UPDATE SET
  cycles = coordinator_cycles.cycles + 1, last_cycle_at = excluded.last_cycle_at, watching_since = excluded.watching_since,
  took_ms = excluded.took_ms, instance_id = excluded.instance_id, reason = excluded.reason, pending = excluded.pending,
  running = excluded.running, healthy = excluded.healthy, stale = excluded.stale, assigned = excluded.assigned,
  recovered = excluded.recovered, failed = excluded.failed, paced_at = coalesce(excluded.paced_at, coordinator_cycles.paced_at);

-- name: Status
SELECT cycles, last_cycle_at, lk_now(), took_ms, instance_id, reason, pending, running, healthy, stale, assigned, recovered, failed
  FROM coordinator_cycles
 WHERE workspace_id = $1;

-- name: Note
INSERT INTO coordinator_logs (workspace_id, id, level, event, message, details, trace_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, lk_now());

-- name: Tell
INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at) VALUES ($1, $2, $3, $4, $5, lk_now());

-- name: Notes
SELECT id, level, event, message, details, trace_id, created_at
  FROM coordinator_logs
 WHERE workspace_id = $1 AND (CAST($2 AS text) IS NULL OR level = $2) AND (created_at, id) < ($3, $4)
 ORDER BY created_at DESC, id DESC
 LIMIT $5;

-- name: Purge
DELETE FROM agent_heartbeats WHERE workspace_id = $1 AND (agent_id, id) IN (
  SELECT h.agent_id, h.id FROM agent_heartbeats h
   WHERE h.workspace_id = $1 AND h.created_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint))) ORDER BY h.created_at LIMIT 10000);

-- name: PurgeNotes
DELETE FROM coordinator_logs WHERE workspace_id = $1 AND id IN (
  SELECT n.id FROM coordinator_logs n
   WHERE n.workspace_id = $1 AND n.created_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint))) ORDER BY n.created_at LIMIT 2000);

-- name: PurgeCommands
DELETE FROM coordinator_commands WHERE workspace_id = $1 AND done_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)));

-- name: Oldest
-- The oldest assignment of an agent that it has not begun: one that drains still does what it was given. What a start
-- is stored for, the started session does.
SELECT t.id, t.attempt
  FROM agents a
  JOIN agent_tasks t ON t.workspace_id = a.workspace_id AND t.agent_id = a.id AND t.status = 'ASSIGNED'
 WHERE a.workspace_id = $1 AND a.id = $2 AND a.status IN ('IDLE', 'WORKING', 'DEGRADED', 'DRAINING')
   AND NOT EXISTS (SELECT 1 FROM outbox o
                    WHERE o.workspace_id = $1 AND o.key = 'task:' || CAST(t.id AS text) || ':' || CAST(t.attempt AS text))
 ORDER BY t.assigned_at, t.id
 LIMIT 1;

-- name: Start
UPDATE agent_tasks SET status = 'RUNNING', started_at = lk_now(), session_key = coalesce($4, session_key), version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND attempt = $3 AND status = 'ASSIGNED';

-- name: Session
UPDATE agent_task_attempts SET session_key = $4 WHERE workspace_id = $1 AND task_id = $2 AND number = $3;

-- name: Strike
-- Another failure of a spawner in a row. Its circuit opens after $3 of them.
INSERT INTO spawner_circuits (workspace_id, target, failures, last_error, updated_at) VALUES ($1, $2, 1, $5, lk_now())
ON CONFLICT (workspace_id, target) DO UPDATE SET
  failures = spawner_circuits.failures + 1, last_error = excluded.last_error, updated_at = lk_now(),
  open_until = CASE WHEN spawner_circuits.failures + 1 >= $3 THEN lk_plus(lk_now(), $4) END;

-- name: Closed
UPDATE spawner_circuits SET failures = 0, open_until = NULL, updated_at = lk_now() WHERE workspace_id = $1 AND target = $2 AND failures > 0;

-- name: Circuit
SELECT failures, open_until, coalesce(open_until > lk_now(), false), last_error FROM spawner_circuits WHERE workspace_id = $1 AND target = $2;

-- name: Model
-- The model that should serve an attempt.
SELECT coalesce(model, '') FROM agent_task_attempts WHERE workspace_id = $1 AND task_id = $2 AND number = $3;
