-- name: Save
-- Equal content is stored once: saving it again can only raise its importance and delay its expiry.
-- One that has expired is replaced.
INSERT INTO agent_memory AS m (workspace_id, id, agent, category, content, content_hash, importance, trace_id, expires_at, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, lk_plus(n.at, $9), n.at, n.at
  FROM (SELECT lk_now() AS at) n
 WHERE true
ON CONFLICT (workspace_id, agent, content_hash) DO UPDATE SET
  importance = CASE WHEN m.importance < excluded.importance OR m.expires_at <= lk_now() THEN excluded.importance ELSE m.importance END,
  category = CASE WHEN m.expires_at <= lk_now() THEN excluded.category ELSE m.category END,
  content = CASE WHEN m.expires_at <= lk_now() THEN excluded.content ELSE m.content END,
  trace_id = CASE WHEN m.expires_at <= lk_now() THEN excluded.trace_id ELSE m.trace_id END,
  created_at = CASE WHEN m.expires_at <= lk_now() THEN excluded.created_at ELSE m.created_at END,
  expires_at = CASE WHEN m.expires_at IS NULL OR excluded.expires_at IS NULL THEN NULL
                    WHEN m.expires_at < excluded.expires_at THEN excluded.expires_at ELSE m.expires_at END,
  version = m.version + 1, updated_at = lk_now()
RETURNING id;

-- name: Create
-- Replaces a memory with the same content that has expired. If it has not expired, no row is
-- returned.
INSERT INTO agent_memory AS m (workspace_id, id, agent, category, content, content_hash, importance, trace_id, expires_at, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, n.at, n.at
  FROM (SELECT lk_now() AS at) n
 WHERE true
ON CONFLICT (workspace_id, agent, content_hash) DO UPDATE SET
  category = excluded.category, content = excluded.content, importance = excluded.importance, trace_id = excluded.trace_id,
  expires_at = excluded.expires_at, version = m.version + 1, created_at = excluded.created_at, updated_at = excluded.updated_at
  WHERE m.expires_at <= lk_now()
RETURNING id, agent, category, content, importance, trace_id, expires_at, version, created_at, updated_at;

-- name: Replace
-- Deletes a memory that has expired where another one gets its content.
DELETE FROM agent_memory
 WHERE workspace_id = $1 AND agent = $2 AND content_hash = $3 AND id <> $4 AND expires_at <= lk_now();

-- name: Patch
-- Updates only the version that was read.
UPDATE agent_memory SET category = $4, content = $5, content_hash = $6, importance = $7, expires_at = $8, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND version = $3
RETURNING id, agent, category, content, importance, trace_id, expires_at, version, created_at, updated_at;

-- name: Delete
-- Of any version, or of the one that was read.
DELETE FROM agent_memory WHERE workspace_id = $1 AND id = $2 AND (CAST($3 AS integer) = 0 OR version = $3);

-- name: Forget
DELETE FROM agent_memory WHERE workspace_id = $1 AND agent = $2 AND id = $3;

-- name: Unsave
-- Deletes the memory only if nobody has saved it again or changed it.
DELETE FROM agent_memory WHERE workspace_id = $1 AND id = $2 AND version = 1;

-- name: Get
SELECT id, agent, category, content, importance, trace_id, expires_at, version, created_at, updated_at
  FROM agent_memory
 WHERE workspace_id = $1 AND id = $2;

-- name: List
SELECT id, agent, category, content, importance, trace_id, expires_at, version, created_at, updated_at
  FROM agent_memory
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR agent = $2)
   AND (CAST($3 AS text) IS NULL OR category = $3)
   AND importance >= $4
   AND (CAST($5 AS boolean) OR expires_at IS NULL OR expires_at > (SELECT lk_now()))
   AND (created_at, id) < ($6, $7)
 ORDER BY created_at DESC, id DESC
 LIMIT $8;

-- name: Relevant
SELECT id, agent, category, content, importance, trace_id, expires_at, version, created_at, updated_at
  FROM agent_memory
 WHERE workspace_id = $1 AND agent = $2 AND (expires_at IS NULL OR expires_at > (SELECT lk_now()))
 ORDER BY importance DESC, created_at DESC, id DESC
 LIMIT $3;

-- name: Categories
SELECT category, count(*)
  FROM agent_memory
 WHERE workspace_id = $1 AND (CAST($2 AS text) IS NULL OR agent = $2) AND (expires_at IS NULL OR expires_at > (SELECT lk_now()))
 GROUP BY category
 ORDER BY count(*) DESC, category
 LIMIT $3;
