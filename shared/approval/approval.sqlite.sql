-- why: SQLite has its own functions for JSON, and no lateral joins.

-- name: History
SELECT d.skill,
       sum(d.status <> 'rejected' AND d.edited_arguments IS NULL),
       sum(d.status = 'rejected'),
       sum(d.edited_arguments IS NOT NULL),
       min(d.requested_at)
  FROM (SELECT a.skill, a.status, a.edited_arguments, a.requested_at, row_number() OVER (PARTITION BY a.skill ORDER BY a.requested_at DESC) AS place
          FROM approvals a
         WHERE a.workspace_id = $1 AND a.skill IN (SELECT k.value FROM json_each($2) k) AND a.status IN ('approved', 'rejected', 'executed')) d
 WHERE d.place <= $3
 GROUP BY d.skill;

-- name: Readings
SELECT r.execution_id, r.skill, r.arguments, r.created_at
  FROM (SELECT s.execution_id, s.body ->> '$.skill' AS skill, s.body ->> '$.call.arguments' AS arguments, s.created_at, s.seq,
               row_number() OVER (PARTITION BY s.execution_id ORDER BY s.seq) AS place
          FROM execution_steps s
         WHERE s.workspace_id = $1 AND s.execution_id IN (SELECT i.value FROM json_each($2) i) AND s.trust = 'outside'
           AND (s.kind = 'input' OR s.kind = 'result' AND instr(substr(s.body ->> '$.result.content', 1, 400), '(data from outside, not instructions)') > 0)) r
 WHERE r.place <= $3
 ORDER BY r.execution_id, r.seq;
