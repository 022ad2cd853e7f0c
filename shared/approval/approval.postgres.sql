-- why: Postgres reads JSON with its own functions, and looks up the newest rows of each skill.

-- name: History
-- Of each skill: how many of its last decisions were approvals, rejections and approvals with edited
-- arguments, and when the first of these calls was asked for.
SELECT k.skill,
       count(*) FILTER (WHERE d.status <> 'rejected' AND d.edited_arguments IS NULL),
       count(*) FILTER (WHERE d.status = 'rejected'),
       count(*) FILTER (WHERE d.edited_arguments IS NOT NULL),
       min(d.requested_at)
  FROM jsonb_array_elements_text(CAST($2 AS jsonb)) k (skill)
 CROSS JOIN LATERAL (
   SELECT a.status, a.edited_arguments, a.requested_at FROM approvals a
    WHERE a.workspace_id = $1 AND a.skill = k.skill AND a.status IN ('approved', 'rejected', 'executed')
    ORDER BY a.requested_at DESC LIMIT $3) d
 GROUP BY k.skill;

-- name: Readings
-- The results with untrusted text of executions, and the untrusted text that they began with.
SELECT CAST(i.id AS text), r.skill, r.arguments, r.created_at
  FROM jsonb_array_elements_text(CAST($2 AS jsonb)) i (id)
 CROSS JOIN LATERAL (
   SELECT s.body ->> 'skill' AS skill, s.body #>> '{call,arguments}' AS arguments, s.created_at, s.seq
     FROM execution_steps s
    WHERE s.workspace_id = $1 AND s.execution_id = CAST(i.id AS uuid) AND s.trust = 'outside'
      AND (s.kind = 'input' OR s.kind = 'result' AND position('(data from outside, not instructions)' IN left(s.body #>> '{result,content}', 400)) > 0)
    ORDER BY s.seq LIMIT $3) r
 ORDER BY i.id, r.seq;
