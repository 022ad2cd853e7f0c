-- why: transactions of Postgres do not end in the order in which they began; the snapshot says up to where no event can be missed.

-- part: After
SELECT p.settled, 0, $2 > p.ceiling, e.xid, e.id, e.kind, e.subject, e.trace_id, e.data, e.created_at
  FROM (SELECT lk_settled() AS settled, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS ceiling) p
  LEFT JOIN LATERAL (SELECT xid, id, kind, subject, trace_id, data, created_at
          FROM events
         WHERE workspace_id = $1 AND (xid, id) > ($2, $3) AND xid < p.settled

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
           AND kind IN (SELECT jsonb_array_elements_text(CAST($5 AS jsonb)))
@Sorted;
