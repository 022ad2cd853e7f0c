-- why: each engine generates ids and series differently.

-- name: Fill
-- Adds $3 memories, beginning with number $2. Each contains "everywhere", one in a thousand
-- contains "rarely".
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, created_at, updated_at)
SELECT $1, CAST('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0') AS uuid), 'flowpilot', 'fact',
       'everywhere ' || n || CASE WHEN n % 1000 = 0 THEN ' rarely' ELSE '' END, n, lk_now(), lk_now()
  FROM generate_series(CAST($2 AS bigint), CAST($2 AS bigint) + CAST($3 AS bigint) - 1) n;

-- name: FillOthers
-- The same, but all of them contain "rarely".
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, created_at, updated_at)
SELECT $1, CAST('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0') AS uuid), 'flowpilot', 'fact',
       'everywhere rarely ' || n, n, lk_now(), lk_now()
  FROM generate_series(CAST($2 AS bigint), CAST($2 AS bigint) + CAST($3 AS bigint) - 1) n;

-- name: Touched
-- Reads of this session: rows fetched through the search index, full scans, scans of the search
-- index.
SELECT pg_stat_get_xact_tuples_fetched('agent_memory'::regclass), pg_stat_get_xact_numscans('agent_memory'::regclass),
       pg_stat_get_xact_numscans('agent_memory_words'::regclass)
 WHERE $1 <> '';
