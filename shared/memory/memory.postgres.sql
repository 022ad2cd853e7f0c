-- why: full-text search is one of our functions on Postgres, because of row-level security, and a virtual table on SQLite.

-- name: Search
SELECT m.id, m.agent, m.category, m.content, m.importance, m.trace_id, m.expires_at, m.version, m.created_at, m.updated_at
  FROM lk_search_memory($2, $3, $4, $5, $6, $7, $8, $9) f
  CROSS JOIN LATERAL (SELECT * FROM agent_memory a WHERE a.workspace_id = $1 AND a.id = f.id LIMIT 1) m -- each by its key, whatever is guessed of the table
 ORDER BY f.place;
