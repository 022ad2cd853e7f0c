-- why: SQLite has one writer, so ids are in the order of commits, and the last id is the present position.

-- part: After
SELECT 0, p.last, $2 > 0 OR $3 > p.last, e.xid, e.id, e.kind, e.subject, e.trace_id, e.data, e.created_at
  FROM (SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0) AS last) p
  LEFT JOIN (SELECT xid, id, kind, subject, trace_id, data, created_at
          FROM events
         WHERE workspace_id = $1 AND (xid, id) > ($2, $3)

-- part: Sorted
         ORDER BY xid, id
         LIMIT $4) e ON true
 ORDER BY e.xid, e.id

-- name: Read
-- One row for each event. Without events it returns one row without an event, so that the current
-- position is always known.
@After
@Sorted;

-- name: ReadKinds
@After
           AND kind IN (SELECT value FROM json_each($5))
@Sorted;
