-- name: Executions
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, created_at, updated_at)
VALUES ($1, $2, 'operator', $3, 'op_test', $4, $5, lk_now(), lk_now());

-- name: Count
SELECT (SELECT count(*) FROM agent_activity WHERE workspace_id = $1), (SELECT count(*) FROM executions WHERE workspace_id = $1),
       (SELECT count(*) FROM events WHERE workspace_id = $1);

-- name: Happens
INSERT INTO events (workspace_id, kind, created_at) VALUES ($1, 'memory.saved', lk_now());

-- name: OldOutbox
INSERT INTO outbox (workspace_id, id, kind, topic, key, payload, status, max_attempts, due_at, trace_id, created_at, updated_at)
VALUES ($1, $2, $5, 'x', $4, '{}', $3, 1, lk_now(), 'op_test', lk_plus(lk_now(), 0 - CAST(31 AS bigint) * 86400000), lk_now());

-- name: Dismissed
-- A person has dismissed the failure of a message.
INSERT INTO failure_dismissals (workspace_id, kind, id, failed_at, dismissed_by, created_at)
SELECT $1, 'message', o.id, o.updated_at, 'ada', lk_now() FROM outbox o WHERE o.workspace_id = $1 AND o.id = $2;

-- name: Dismissals
SELECT count(*) FROM failure_dismissals WHERE workspace_id = $1;

-- name: FailsAgain
UPDATE outbox SET updated_at = lk_plus(updated_at, 1000) WHERE workspace_id = $1 AND id = $2;

-- name: OldRun
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, status, created_at, updated_at, ended_at)
VALUES ($1, $2, 'operator', 'op', 'op_test', 'completed', lk_plus(lk_now(), 0 - CAST(91 AS bigint) * 86400000), lk_now(), lk_now());

-- name: Outboxes
SELECT count(*) FROM outbox WHERE workspace_id = $1;

-- name: Left
SELECT (SELECT count(*) FROM agent_memory WHERE workspace_id = $1), (SELECT count(*) FROM agent_usage_logs WHERE workspace_id = $1);

-- name: Day
-- A daily budget that began $4 days ago.
INSERT INTO usage_budgets (workspace_id, id, scope, scope_id, allocated, period_start, period_end, created_by, created_at, updated_at)
VALUES ($1, $2, 'agent', 'a', 1, lk_plus(lk_now(), 0 - CAST($4 AS bigint) * 86400000), lk_plus(lk_now(), 86400000 - CAST($4 AS bigint) * 86400000), $3, lk_now(), lk_now());

-- name: Budgets
SELECT count(*) FROM usage_budgets WHERE workspace_id = $1;

-- name: Approval
INSERT INTO approvals (workspace_id, id, skill, arguments, digest, execution_id, call_id, agent, surface, trace_id, status, requested_at, expires_at, decided_at)
VALUES ($1, $2, 'pay', '{}', 'd', $2, '1.1', 'operator', 'op', 'op_test', $3, lk_now(), lk_now(), lk_now());

-- name: Task
-- A task that changed for the last time $3 days ago.
INSERT INTO agent_tasks (workspace_id, id, title, status, cancelled, completed_at, created_by, created_at, updated_at)
VALUES ($1, $2, 'x', $4, $5, CASE WHEN $4 = 'COMPLETED' THEN lk_now() END, 'ada', lk_now(), lk_plus(lk_now(), 0 - CAST($3 AS bigint) * 86400000));

-- name: TaskLine
-- A row of a task's log that was written $4 days ago.
INSERT INTO agent_task_logs (workspace_id, id, task_id, level, event, message, actor, created_at)
VALUES ($1, $2, $3, 'INFO', $5, 'x', 'ada', lk_plus(lk_now(), 0 - CAST($4 AS bigint) * 86400000));

-- name: TaskLines
SELECT count(*) FROM agent_task_logs WHERE workspace_id = $1 AND task_id = $2;

-- name: Approvals
SELECT count(*) FROM approvals WHERE workspace_id = $1;

-- name: Delivery
-- A delivery that ended $5 days ago.
INSERT INTO inbox (workspace_id, id, source_id, source, delivery_id, event, headers, body, digest, status, trace_id, received_at, updated_at, ended_at)
VALUES ($1, $2, $2, 'shop', 'd', 'paid', '{}', $3, $4, 'done', 'wh_test', lk_plus(lk_now(), 0 - CAST($5 AS bigint) * 86400000),
  lk_plus(lk_now(), 0 - CAST($5 AS bigint) * 86400000), lk_now());

-- name: Deliveries
SELECT count(*) FROM inbox WHERE workspace_id = $1;
