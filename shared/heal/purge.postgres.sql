-- why: these tables are append-only to the application, a function of their owner deletes.
-- name: PurgeActivity
SELECT lk_purge_activity(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;

-- name: PurgeEvents
SELECT lk_purge_events(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;

-- name: PurgeUsage
SELECT lk_purge_usage(CAST($2 AS bigint)) WHERE CAST($1 AS uuid) IS NOT NULL;
