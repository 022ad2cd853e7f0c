-- name: Save
-- The same thing is remembered once: saying it again raises its importance and keeps it longer.
INSERT INTO agent_memory AS m (workspace_id, id, agent, category, content, content_hash, importance, trace_id, expires_at, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, lk_now(), lk_now())
ON CONFLICT (workspace_id, agent, content_hash) DO UPDATE SET
  importance = CASE WHEN m.importance < excluded.importance THEN excluded.importance ELSE m.importance END,
  expires_at = CASE WHEN m.expires_at IS NULL OR excluded.expires_at IS NULL THEN NULL
                    WHEN m.expires_at < excluded.expires_at THEN excluded.expires_at ELSE m.expires_at END,
  updated_at = lk_now()
RETURNING id;

-- name: Newest
SELECT id, agent, category, content, importance, trace_id, expires_at, created_at
  FROM agent_memory
 WHERE workspace_id = $1 AND agent = $2 AND (expires_at IS NULL OR expires_at > lk_now())
 ORDER BY created_at DESC, id DESC
 LIMIT $3;

-- name: Search
SELECT id, agent, category, content, importance, trace_id, expires_at, created_at
  FROM agent_memory
 WHERE workspace_id = $1 AND agent = $2 AND (expires_at IS NULL OR expires_at > lk_now())
   AND lower(content) LIKE $3 ESCAPE '\' AND (CAST($4 AS text) IS NULL OR category = $4)
 ORDER BY created_at DESC, id DESC
 LIMIT $5;

-- name: Forget
DELETE FROM agent_memory WHERE workspace_id = $1 AND agent = $2 AND id = $3;

-- name: Relevant
SELECT id, agent, category, content, importance, trace_id, expires_at, created_at
  FROM agent_memory
 WHERE workspace_id = $1 AND agent = $2 AND (expires_at IS NULL OR expires_at > lk_now())
 ORDER BY importance DESC, created_at DESC, id DESC
 LIMIT $3;
