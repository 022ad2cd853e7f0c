-- part: Matches
workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR trace_id = $2)
   AND (CAST($3 AS text) IS NULL OR skill_name = $3)
   AND (CAST($4 AS text) IS NULL OR status = $4)
   AND (CAST($5 AS text) IS NULL OR surface = $5)
   AND (CAST($6 AS text) IS NULL OR agent = $6)
   AND created_at >= $7 AND created_at < $8
   AND (CAST($9 AS text) IS NULL OR lower(coalesce(skill_name, '') || ' ' || coalesce(error_message, '') || ' '
        || coalesce(CAST(input AS text), '') || ' ' || coalesce(CAST(output AS text), '')) LIKE lower(CAST($9 AS text)) ESCAPE '\');

-- name: Record
INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, skill_id, status, input, output, error_message,
  token_usage, model, cost_usd, duration_ms, trace_id, execution_id, parent_execution_id, attempt, thread_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, lk_now());

-- name: List
SELECT id, agent, surface, skill_name, skill_id, status, input, output, error_message, token_usage, model, cost_usd, duration_ms,
       trace_id, execution_id, parent_execution_id, attempt, thread_id, created_at
  FROM agent_activity
 WHERE @Matches
   AND (created_at, id) < ($10, $11)
 ORDER BY created_at DESC, id DESC
 LIMIT $12;

-- name: OfTrace
SELECT id, agent, surface, skill_name, skill_id, status, input, output, error_message, token_usage, model, cost_usd, duration_ms,
       trace_id, execution_id, parent_execution_id, attempt, thread_id, created_at
  FROM agent_activity
 WHERE workspace_id = $1 AND trace_id = $2
 ORDER BY created_at, id
 LIMIT $3;

-- name: Audit
-- What people and programs did, by way of the API.
SELECT id, agent, surface, skill_name, skill_id, status, input, output, error_message, token_usage, model, cost_usd, duration_ms,
       trace_id, execution_id, parent_execution_id, attempt, thread_id, created_at
  FROM agent_activity
 WHERE workspace_id = $1 AND skill_name LIKE '%.%' AND (input ->> 'by') IS NOT NULL
   AND (CAST($2 AS text) IS NULL OR input ->> 'by' = $2)
   AND (CAST($3 AS text) IS NULL OR skill_name = $3 OR substr(skill_name, 1, length(CAST($3 AS text)) + 1) = CAST($3 AS text) || '.')
   AND created_at >= $4 AND created_at < $5
   AND (created_at, id) < ($6, $7)
 ORDER BY created_at DESC, id DESC
 LIMIT $8;

-- name: Used
-- Counts each skill's calls, without phases of the heartbeat, model calls, the ends of runs, turns and
-- deliveries, what was done by way of the API, and calls that could not be made.
SELECT skill_name, count(*), count(CASE WHEN status = 'error' THEN 1 END), CAST(coalesce(avg(duration_ms), 0) AS bigint)
  FROM agent_activity
 WHERE workspace_id = $1 AND created_at >= $2 AND skill_name IS NOT NULL AND skill_name NOT LIKE '%.%' AND skill_name <> 'heartbeat'
   AND skill_name NOT LIKE '(%' AND (skill_id IS NOT NULL OR skill_name NOT IN ('reason', 'operate', 'chat', 'webhook'))
   AND (status = 'success' OR status = 'error' AND output ->> 'refused' IS NULL)
 GROUP BY skill_name
 ORDER BY 2 DESC, 1
 LIMIT $3;
