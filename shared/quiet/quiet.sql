-- name: Look
-- Whether there may be something to do, how old the oldest rows are, and whether a skill was used since the last record of a
-- name that had a result. This query must find everything that a heartbeat's full look finds: each condition below is wider than
-- the full look's, or the same. $2 is the slot, $3 the topics of the outbox, $4 and $5 after how many milliseconds an
-- execution with and without a lane has been left, $6 and $7 how many failed calls within how many milliseconds, $8 and $9
-- the name and how far back. Row-level security keeps Postgres from an index where a row is compared with coalesce, so r
-- computes that bound. For EXISTS with a bound that is known late it reads the table, so the newest row is asked for.
SELECT EXISTS (SELECT 1 FROM agent_objectives WHERE workspace_id = $1 AND status = 'active')
    OR EXISTS (SELECT 1 FROM executions
                WHERE workspace_id = $1 AND subject IS NOT NULL AND status IN ('running', 'waiting', 'parked')
                  AND (surface = 'hb' OR status = 'running' AND updated_at < lk_plus((SELECT lk_now()), 0 - CAST($4 AS bigint))))
    OR EXISTS (SELECT 1 FROM executions
                WHERE workspace_id = $1 AND subject IS NULL AND status IN ('running', 'waiting', 'parked')
                  AND (status = 'parked'
                    OR updated_at < lk_plus((SELECT lk_now()), 0 - coalesce(timeout_seconds * CAST(1000 AS bigint), CAST($5 AS bigint)))))
    OR EXISTS (SELECT 1 FROM executions WHERE workspace_id = $1 AND surface = 'hb' AND slot >= CAST($2 AS text))
    OR EXISTS (SELECT 1 FROM outbox
                WHERE workspace_id = $1 AND status IN ('ready', 'sending') AND due_at <= (SELECT lk_now())
                  AND CAST($3 AS text) LIKE '%"' || topic || '"%')
    OR EXISTS (SELECT 1 FROM outbox WHERE workspace_id = $1 AND status = 'queued')
    OR EXISTS (SELECT 1 FROM threads WHERE workspace_id = $1 AND active_execution_id IS NOT NULL)
    OR EXISTS (SELECT 1 FROM approvals WHERE workspace_id = $1 AND status = 'pending')
    OR EXISTS (SELECT 1 FROM agent_automations WHERE workspace_id = $1 AND next_run_at <= (SELECT lk_now()))
    OR EXISTS (SELECT 1 FROM agent_automations a
                WHERE a.workspace_id = $1 AND a.event IS NOT NULL AND a.enabled
                  AND EXISTS (SELECT 1 FROM events e
                               WHERE e.workspace_id = $1 AND e.kind = a.event AND e.created_at > a.created_at
                                 AND (e.xid, e.id) > (CASE WHEN a.event_xid >= (SELECT lk_begun()) THEN 0 ELSE a.event_xid END, a.event_id)))
    OR EXISTS (SELECT 1 FROM heals
                WHERE workspace_id = $1 AND status IN ('active', 'probing') AND (status = 'probing' OR probe_at <= (SELECT lk_now())))
    OR (SELECT count(*) FROM (
          SELECT 1 FROM agent_activity
           WHERE workspace_id = $1 AND skill_name IS NOT NULL
             AND status = 'error' AND coalesce(output ->> 'class', '') IN ('', 'ours', 'theirs')
             AND created_at > lk_plus((SELECT lk_now()), 0 - CAST($7 AS bigint))
           LIMIT $6) AS failed) >= $6
    OR EXISTS (SELECT 1 FROM kill_switches WHERE workspace_id = $1 AND released_at IS NULL AND scope IN ('workspace', 'agent')),
       lk_now(), (SELECT created_at FROM agent_activity WHERE workspace_id = $1 ORDER BY created_at LIMIT 1),
       (SELECT created_at FROM events WHERE workspace_id = $1 ORDER BY xid, id LIMIT 1),
       (SELECT created_at FROM outbox WHERE workspace_id = $1 AND status IN ('sent', 'failed', 'superseded', 'expired', 'dead')
         ORDER BY created_at LIMIT 1),
       (SELECT created_at FROM agent_usage_logs WHERE workspace_id = $1 ORDER BY created_at LIMIT 1),
       (SELECT expires_at FROM idempotency_keys WHERE workspace_id = $1 ORDER BY expires_at LIMIT 1),
       r.at, (SELECT a.created_at FROM agent_activity a
               WHERE a.workspace_id = $1 AND a.created_at > r.since
                 AND a.skill_name NOT LIKE 'heartbeat%' AND a.skill_name NOT LIKE '(%'
               ORDER BY a.created_at DESC LIMIT 1) IS NOT NULL
  FROM (SELECT max(created_at) AS at, coalesce(max(created_at), lk_plus(lk_now(), 0 - CAST($9 AS bigint))) AS since FROM agent_activity
         WHERE workspace_id = $1 AND skill_name = $8 AND output ->> 'text' IS NOT NULL
           AND created_at > lk_plus((SELECT lk_now()), 0 - CAST($9 AS bigint))) AS r;
