-- Which skills cost most: what a model call used is shared among the skills that its
-- answer asks for.

-- +goose Up
ALTER TABLE agent_usage_logs ADD COLUMN skills TEXT CHECK (json_valid(skills)); -- names, each once; null: none

-- A row for each call and skill, in equal shares: the last takes the rest. A report
-- that names its skill counts for it, an answer without a call for "(answer)".
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

CREATE VIEW agent_tokens_by_skill AS
SELECT workspace_id, strftime('%Y-%m-%d', created_at / 1000000, 'unixepoch') AS day, skill_name,
       sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) AS tokens,
       coalesce(sum(cost_micro_usd), 0) AS cost_micro_usd
  FROM agent_usage_by_skill
 GROUP BY workspace_id, strftime('%Y-%m-%d', created_at / 1000000, 'unixepoch'), skill_name;

-- +goose Down
DROP VIEW agent_tokens_by_skill;
DROP VIEW agent_usage_by_skill;
ALTER TABLE agent_usage_logs DROP COLUMN skills;
