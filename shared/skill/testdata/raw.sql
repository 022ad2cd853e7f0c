-- name: PutActivity
-- An action of $8 milliseconds ago.
INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, output, duration_ms, trace_id, created_at)
VALUES ($1, $2, 'flowpilot', 'hb', $3, $4, $5, $6, $7, lk_plus(lk_now(), 0 - CAST($8 AS bigint)));

-- name: Break
UPDATE agent_skills SET parameters = coalesce($3, parameters), config = coalesce($4, config) WHERE workspace_id = $1 AND name = $2;

-- name: Rename
UPDATE agent_skills SET name = $3 WHERE workspace_id = $1 AND name = $2;

-- name: Rows
SELECT count(*) FROM agent_skills WHERE workspace_id = $1;

-- name: Bad
-- Rows that our code never writes. The database must refuse them too.
INSERT INTO agent_skills (workspace_id, id, name, kind, description, parameters, config, scope, requires_approval, serial, timeout_seconds,
  enabled, disabled_by, disabled_reason, disabled_at, version, created_by, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, CASE WHEN CAST($15 AS boolean) THEN lk_now() END, $16, $17, lk_now(), lk_now());
