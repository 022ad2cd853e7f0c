-- why: only Postgres has generate_series and the type uuid.

-- name: ManyMemories
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, expires_at, created_at, updated_at)
SELECT $1, gen_random_uuid(), 'operator', 'fact', 'x', 'h' || n, lk_plus(lk_now(), 0 - CAST($3 AS bigint) * 86400000), lk_now(), lk_now()
  FROM generate_series(1, CAST($2 AS bigint)) n;

-- name: ManyUsages
INSERT INTO agent_usage_logs (workspace_id, id, trace_id, agent, surface, operation, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, created_at)
SELECT $1, gen_random_uuid(), 'op_test', 'operator', 'op', 'reason', 'm', 1, 1, 0, 0, lk_plus(lk_now(), 0 - CAST($3 AS bigint) * 86400000)
  FROM generate_series(1, CAST($2 AS bigint)) n;
