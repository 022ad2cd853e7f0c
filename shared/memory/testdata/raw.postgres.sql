-- why: ids and series are made in another way on each engine.

-- name: Fill
-- Adds $3 memories from number $2 on. Each says "everywhere", one in a thousand says "rarely".
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, created_at, updated_at)
SELECT $1, CAST('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0') AS uuid), 'flowpilot', 'fact',
       'everywhere ' || n || CASE WHEN n % 1000 = 0 THEN ' rarely' ELSE '' END, n, lk_now(), lk_now()
  FROM generate_series(CAST($2 AS bigint), CAST($2 AS bigint) + CAST($3 AS bigint) - 1) n;

-- name: FillOthers
-- The same, and all of them say "rarely".
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, created_at, updated_at)
SELECT $1, CAST('00000000-0000-7000-8000-' || lpad(CAST(n AS text), 12, '0') AS uuid), 'flowpilot', 'fact',
       'everywhere rarely ' || n, n, lk_now(), lk_now()
  FROM generate_series(CAST($2 AS bigint), CAST($2 AS bigint) + CAST($3 AS bigint) - 1) n;

-- name: Touched
-- What this session has read of late: rows fetched as an index of words names them, scans of all of it, scans of the index of words.
SELECT pg_stat_get_xact_tuples_fetched('agent_memory'::regclass), pg_stat_get_xact_numscans('agent_memory'::regclass),
       pg_stat_get_xact_numscans('agent_memory_words'::regclass)
 WHERE $1 <> '';
