-- The rows that one round of a purge deletes.

-- part: oldExecutions
-- Children are deleted before their parents, which a later round deletes. OFFSET makes Postgres look
-- them up by their parent, however few executions it expects.
  FROM executions e
   WHERE e.workspace_id = $1 AND e.surface IN ('hb', 'op', 'ch', 'wh', 'co', 'wk') AND e.status NOT IN ('running', 'waiting', 'parked')
     AND e.created_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND coalesce(e.ended_at, e.updated_at) < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND NOT EXISTS (SELECT 1 FROM executions c WHERE c.workspace_id = $1 AND c.parent_id = e.id LIMIT 1 OFFSET 0)
   LIMIT 2000

-- part: oldOutbox
-- Uncertain messages stay until a person has dismissed them: only those can be sent again.
  FROM outbox
   WHERE workspace_id = $1
     AND (status IN ('sent', 'failed', 'superseded', 'expired', 'dead')
       OR status = 'uncertain' AND (kind <> 'message' OR EXISTS (
          SELECT 1 FROM failure_dismissals d
           WHERE d.workspace_id = $1 AND d.kind = 'message' AND d.id = outbox.id AND d.failed_at >= outbox.updated_at)))
     AND created_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND updated_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000

-- part: oldApprovals
  FROM approvals
   WHERE workspace_id = $1 AND status NOT IN ('pending', 'approved') AND requested_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND coalesce(executed_at, decided_at) < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000

-- part: oldHeals
-- Those that can't be undone any more.
  FROM heals
   WHERE workspace_id = $1 AND status NOT IN ('active', 'probing') AND updated_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000

-- part: oldMemories
-- $2 milliseconds after their expiry. No query finds them any more.
  FROM agent_memory
   WHERE workspace_id = $1 AND expires_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000

-- part: oldBudgets
-- Daily budgets that Lanekeeper created itself.
  FROM usage_budgets
   WHERE workspace_id = $1 AND created_by = 'lanekeeper' AND period_end < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000

-- part: oldKeys
  FROM idempotency_keys k
   WHERE k.workspace_id = $1 AND k.expires_at <= (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint))) ORDER BY k.expires_at LIMIT 2000

-- part: oldInbox
-- Deliveries that have ended.
  FROM inbox
   WHERE workspace_id = $1 AND status IN ('done', 'parked') AND received_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND updated_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   LIMIT 2000

-- part: oldDismissals
-- Those of failures whose rows are gone.
  FROM failure_dismissals d
   WHERE d.workspace_id = $1 AND d.created_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
     AND NOT EXISTS (SELECT 1 FROM agent_tasks t WHERE d.kind = 'task' AND t.workspace_id = $1 AND t.id = d.id)
     AND NOT EXISTS (SELECT 1 FROM executions e WHERE d.kind = 'execution' AND e.workspace_id = $1 AND e.id = d.id)
     AND NOT EXISTS (SELECT 1 FROM outbox o WHERE d.kind IN ('message', 'delivery') AND o.workspace_id = $1 AND o.id = d.id)
     AND NOT EXISTS (SELECT 1 FROM inbox i WHERE d.kind = 'delivery' AND i.workspace_id = $1 AND i.id = d.id)
   LIMIT 2000

-- part: oldDeliveries
-- Attempts at outbound webhooks.
  FROM deliveries
   WHERE workspace_id = $1 AND created_at < (SELECT lk_plus(lk_now(), 0 - CAST($2 AS bigint)))
   ORDER BY created_at
   LIMIT 2000
