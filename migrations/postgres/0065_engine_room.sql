-- What the Engine Room reads: usage by skill and a second key, and what people did by way of the API.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE OR REPLACE VIEW agent_usage_by_skill WITH (security_invoker = true) AS
SELECT l.workspace_id, l.created_at, s.skill_name,
       l.input_tokens / n.n + s.last * (l.input_tokens % n.n) AS input_tokens,
       l.output_tokens / n.n + s.last * (l.output_tokens % n.n) AS output_tokens,
       l.cache_read_tokens / n.n + s.last * (l.cache_read_tokens % n.n) AS cache_read_tokens,
       l.cache_write_tokens / n.n + s.last * (l.cache_write_tokens % n.n) AS cache_write_tokens,
       l.cost_micro_usd / n.n + s.last * (l.cost_micro_usd % n.n) AS cost_micro_usd,
       l.agent, l.model, l.surface, l.operation, l.task_id
  FROM agent_usage_logs l
 CROSS JOIN LATERAL (SELECT coalesce(nullif(l.skills, '[]'), jsonb_build_array(coalesce(l.skill, '(answer)'))) AS names) a
 CROSS JOIN LATERAL (SELECT jsonb_array_length(a.names) AS n) n
 CROSS JOIN LATERAL (SELECT e.name AS skill_name, CASE WHEN e.place = n.n THEN 1 ELSE 0 END AS last
                       FROM jsonb_array_elements_text(a.names) WITH ORDINALITY AS e (name, place)) s;

CREATE INDEX agent_activity_audit ON agent_activity (workspace_id, created_at DESC, id DESC)
  WHERE skill_name LIKE '%.%' AND (input ->> 'by') IS NOT NULL;

-- +goose Down
DROP INDEX agent_activity_audit;
DROP VIEW agent_tokens_by_skill;
DROP VIEW agent_usage_by_skill;
CREATE VIEW agent_usage_by_skill WITH (security_invoker = true) AS
SELECT l.workspace_id, l.created_at, s.skill_name,
       l.input_tokens / n.n + s.last * (l.input_tokens % n.n) AS input_tokens,
       l.output_tokens / n.n + s.last * (l.output_tokens % n.n) AS output_tokens,
       l.cache_read_tokens / n.n + s.last * (l.cache_read_tokens % n.n) AS cache_read_tokens,
       l.cache_write_tokens / n.n + s.last * (l.cache_write_tokens % n.n) AS cache_write_tokens,
       l.cost_micro_usd / n.n + s.last * (l.cost_micro_usd % n.n) AS cost_micro_usd
  FROM agent_usage_logs l
 CROSS JOIN LATERAL (SELECT coalesce(nullif(l.skills, '[]'), jsonb_build_array(coalesce(l.skill, '(answer)'))) AS names) a
 CROSS JOIN LATERAL (SELECT jsonb_array_length(a.names) AS n) n
 CROSS JOIN LATERAL (SELECT e.name AS skill_name, CASE WHEN e.place = n.n THEN 1 ELSE 0 END AS last
                       FROM jsonb_array_elements_text(a.names) WITH ORDINALITY AS e (name, place)) s;

CREATE VIEW agent_tokens_by_skill WITH (security_invoker = true) AS
SELECT workspace_id, CAST(created_at AT TIME ZONE 'UTC' AS date) AS day, skill_name,
       CAST(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) AS bigint) AS tokens,
       CAST(coalesce(sum(cost_micro_usd), 0) AS bigint) AS cost_micro_usd
  FROM agent_usage_by_skill
 GROUP BY workspace_id, CAST(created_at AT TIME ZONE 'UTC' AS date), skill_name;
GRANT SELECT ON agent_usage_by_skill, agent_tokens_by_skill TO lanekeeper_app;
