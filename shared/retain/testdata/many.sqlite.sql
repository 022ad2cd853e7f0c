-- why: only Postgres has generate_series and the type uuid.

-- name: ManyMemories
WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < $2)
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, expires_at, created_at, updated_at)
SELECT $1, lower(hex(randomblob(16))), 'operator', 'fact', 'x', 'h' || n, lk_plus(lk_now(), 0 - $3 * 86400000), lk_now(), lk_now() FROM many;

-- name: ManyUsages
WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < $2)
INSERT INTO agent_usage_logs (workspace_id, id, trace_id, agent, surface, operation, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, created_at)
SELECT $1, lower(hex(randomblob(16))), 'op_test', 'operator', 'op', 'reason', 'm', 1, 1, 0, 0, lk_plus(lk_now(), 0 - $3 * 86400000) FROM many;
