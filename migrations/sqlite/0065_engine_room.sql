-- What the Engine Room reads: usage by skill and a second key, and what people did by way of the API.
-- oldest: 46

-- +goose Up
DROP VIEW agent_usage_by_skill;
CREATE VIEW agent_usage_by_skill AS
SELECT l.workspace_id, l.created_at, s.value AS skill_name,
       l.input_tokens / l.n + (s.key = l.n - 1) * (l.input_tokens % l.n) AS input_tokens,
       l.output_tokens / l.n + (s.key = l.n - 1) * (l.output_tokens % l.n) AS output_tokens,
       l.cache_read_tokens / l.n + (s.key = l.n - 1) * (l.cache_read_tokens % l.n) AS cache_read_tokens,
       l.cache_write_tokens / l.n + (s.key = l.n - 1) * (l.cache_write_tokens % l.n) AS cache_write_tokens,
       l.cost_micro_usd / l.n + (s.key = l.n - 1) * (l.cost_micro_usd % l.n) AS cost_micro_usd,
       l.agent, l.model, l.surface, l.operation, l.task_id
  FROM (SELECT u.*, coalesce(nullif(u.skills, '[]'), json_array(coalesce(u.skill, '(answer)'))) AS names,
               coalesce(nullif(json_array_length(u.skills), 0), 1) AS n
          FROM agent_usage_logs u) l
  JOIN json_each(l.names) s;

CREATE INDEX agent_activity_audit ON agent_activity (workspace_id, created_at DESC, id DESC)
  WHERE skill_name LIKE '%.%' AND (input ->> 'by') IS NOT NULL;

-- +goose Down
DROP INDEX agent_activity_audit;
DROP VIEW agent_usage_by_skill;
CREATE VIEW agent_usage_by_skill AS
SELECT l.workspace_id, l.created_at, s.value AS skill_name,
       l.input_tokens / l.n + (s.key = l.n - 1) * (l.input_tokens % l.n) AS input_tokens,
       l.output_tokens / l.n + (s.key = l.n - 1) * (l.output_tokens % l.n) AS output_tokens,
       l.cache_read_tokens / l.n + (s.key = l.n - 1) * (l.cache_read_tokens % l.n) AS cache_read_tokens,
       l.cache_write_tokens / l.n + (s.key = l.n - 1) * (l.cache_write_tokens % l.n) AS cache_write_tokens,
       l.cost_micro_usd / l.n + (s.key = l.n - 1) * (l.cost_micro_usd % l.n) AS cost_micro_usd
  FROM (SELECT u.*, coalesce(nullif(u.skills, '[]'), json_array(coalesce(u.skill, '(answer)'))) AS names,
               coalesce(nullif(json_array_length(u.skills), 0), 1) AS n
          FROM agent_usage_logs u) l
  JOIN json_each(l.names) s;
