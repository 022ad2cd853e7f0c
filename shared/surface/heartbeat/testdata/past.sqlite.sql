-- why: only Postgres has generate_series, connections and the type uuid.

-- name: PastActivity
WITH RECURSIVE past (n) AS (SELECT $2 UNION ALL SELECT n + 1 FROM past WHERE n < $3)
INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, trace_id, created_at)
SELECT $1, printf('00000000-0000-7000-8000-%012d', n), 'flowpilot', 'hb', 'heartbeat', 'success', 'hb_0mh8c1v2q_a7x2p1k9d4', lk_now() FROM past;

-- name: PastExecutions
WITH RECURSIVE past (n) AS (SELECT $2 UNION ALL SELECT n + 1 FROM past WHERE n < $3)
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, slot, status, created_at, updated_at, ended_at)
SELECT $1, printf('00000000-0000-7000-8000-%012d', n), 'flowpilot', 'hb', 'hb_0mh8c1v2q_a7x2p1k9d4', 'heartbeat',
       'heartbeat:!past/' || n, 'completed', lk_now(), lk_now(), lk_now()
  FROM past;

-- name: PastOpen
WITH RECURSIVE past (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM past WHERE n < $2)
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, created_at, updated_at)
SELECT $1, printf('00000000-0000-7000-8000-%012d', n), 'flowpilot', 'hb', 'hb_0mh8c1v2q_a7x2p1k9d4', 'other:' || n,
       'parked', lk_plus(lk_now(), -86400000), lk_now() FROM past;

-- name: ManyWorkspaces
-- global: workspaces is a global table
WITH RECURSIVE past (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM past WHERE n < $1)
INSERT INTO workspaces (id, slug, name)
SELECT printf('00000000-0000-7000-9000-%012d', n), 'many-' || n, 'Many' FROM past;

-- name: PastEvents
WITH RECURSIVE past (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM past WHERE n < $2)
INSERT INTO events (workspace_id, kind, data, created_at) SELECT $1, 'memory.saved', '{}', lk_now() FROM past;

-- name: Connections
SELECT 1 WHERE length($1 || $2) > 0;
