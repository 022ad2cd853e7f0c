-- why: only Postgres has generate_series, connections and the type uuid.

-- name: PastActivity
INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, trace_id, created_at)
SELECT $1, ('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0'))::uuid, 'flowpilot', 'hb', 'heartbeat', 'success', 'hb_0mh8c1v2q_a7x2p1k9d4', lk_now()
  FROM generate_series(CAST($2 AS bigint), $3) n;

-- name: PastExecutions
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, slot, status, created_at, updated_at, ended_at)
SELECT $1, ('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0'))::uuid, 'flowpilot', 'hb', 'hb_0mh8c1v2q_a7x2p1k9d4', 'heartbeat',
       'heartbeat:!past/' || n, 'completed', lk_now(), lk_now(), lk_now()
  FROM generate_series(CAST($2 AS bigint), $3) n;

-- name: PastOpen
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, subject, status, created_at, updated_at)
SELECT $1, ('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0'))::uuid, 'flowpilot', 'hb', 'hb_0mh8c1v2q_a7x2p1k9d4', 'other:' || n,
       'parked', lk_plus(lk_now(), -86400000), lk_now()
  FROM generate_series(1, CAST($2 AS bigint)) n;

-- name: ManyWorkspaces
-- global: workspaces is a global table
INSERT INTO workspaces (id, slug, name)
SELECT ('00000000-0000-7000-9000-' || lpad(CAST(n AS text), 12, '0'))::uuid, 'many-' || n, 'Many' FROM generate_series(1, CAST($1 AS bigint)) n;

-- name: PastEvents
INSERT INTO events (workspace_id, kind, data, created_at) SELECT $1, 'memory.saved', '{}', lk_now() FROM generate_series(1, CAST($2 AS bigint));

-- name: Connections
SELECT count(*) FROM pg_stat_activity WHERE application_name = $2 AND CAST($1 AS uuid) IS NOT NULL;
