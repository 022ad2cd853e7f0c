-- why: full-text search is one of our functions on Postgres, because of row-level security, and a virtual table on SQLite.

-- name: Search
-- Each word is quoted, so that none is an operator. A lower rank is better. CROSS JOIN makes SQLite
-- run the search first.
SELECT m.id, m.agent, m.category, m.content, m.importance, m.trace_id, m.expires_at, m.version, m.created_at, m.updated_at
  FROM (SELECT id, bm25(agent_memory_words, 0, 0, 1) AS rank
          FROM agent_memory_words
         WHERE agent_memory_words MATCH 'workspace:"' || replace($1, '-', '') || '" AND content:("' || replace($2, ' ', '" "') || '"'
                                        || CASE WHEN $3 THEN '*)' ELSE ')' END
         ORDER BY rowid DESC
         LIMIT 10000) f
  CROSS JOIN agent_memory m ON m.workspace_id = $1 AND m.id = f.id
 WHERE ($4 IS NULL OR m.agent = $4)
   AND ($5 IS NULL OR m.category = $5)
   AND m.importance >= $6
   AND ($7 OR m.expires_at IS NULL OR m.expires_at > (SELECT lk_now()))
 ORDER BY f.rank, m.importance DESC, m.created_at DESC, m.id DESC
 LIMIT $8 OFFSET $9;
