-- name: Open
SELECT lk_now(), count(*)
  FROM approvals
 WHERE workspace_id = $1 AND execution_id = $2 AND status = 'pending' AND expires_at > (SELECT lk_now());

-- name: Asked
-- The calls of a skill that other executions of a subject have asked for and that nobody has answered or made yet.
SELECT id, skill, skill_id, arguments, digest, why, execution_id, call_id, subject, agent, surface, trace_id, status, reason,
       edited_arguments, result, error, requested_at, expires_at, decided_at, decided_by, started_at, executed_at, trust = 'outside'
  FROM approvals
 WHERE workspace_id = $1 AND subject = $2 AND skill = $3 AND execution_id <> $4
   AND (status = 'pending' AND expires_at > (SELECT lk_now()) OR status = 'approved')
 ORDER BY requested_at
 LIMIT 100;

-- name: Request
INSERT INTO approvals (workspace_id, id, skill, skill_id, arguments, digest, why, execution_id, call_id, subject, agent, surface, trace_id,
  requested_at, expires_at, trust)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, CASE WHEN $16 THEN 'outside' ELSE 'operator' END);

-- name: Get
SELECT id, skill, skill_id, arguments, digest, why, execution_id, call_id, subject, agent, surface, trace_id,
       CASE WHEN status = 'pending' AND expires_at <= lk_now() THEN 'expired' ELSE status END, reason,
       edited_arguments, result, error, requested_at, expires_at, decided_at, decided_by, started_at, executed_at, trust = 'outside'
  FROM approvals
 WHERE workspace_id = $1 AND id = $2;

-- name: List
SELECT id, skill, skill_id, arguments, digest, why, execution_id, call_id, subject, agent, surface, trace_id,
       CASE WHEN status = 'pending' AND expires_at <= lk_now() THEN 'expired' ELSE status END, reason,
       edited_arguments, result, error, requested_at, expires_at, decided_at, decided_by, started_at, executed_at, trust = 'outside'
  FROM approvals
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL
     OR status = $2 AND (status <> 'pending' OR expires_at > (SELECT lk_now()))
     OR $2 = 'expired' AND status = 'pending' AND expires_at <= (SELECT lk_now()))
   AND (CAST($3 AS text) IS NULL OR skill = $3)
   AND (CAST($4 AS text) IS NULL OR agent = $4)
   AND (requested_at, id) < ($5, $6)
 ORDER BY requested_at DESC, id DESC
 LIMIT $7;

-- name: Pending
SELECT coalesce(sum(CASE WHEN expires_at > lk_now() THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN expires_at > lk_now() THEN 0 ELSE 1 END), 0),
       min(CASE WHEN expires_at > lk_now() THEN requested_at END)
  FROM approvals
 WHERE workspace_id = $1 AND status = 'pending';

-- name: Approve
-- From now on, the digest is that of the call which will be made.
UPDATE approvals SET status = 'approved', digest = $4, edited_arguments = $5, decided_at = lk_now(), decided_by = $6
 WHERE workspace_id = $1 AND id = $2 AND status = 'pending' AND digest = $3 AND expires_at > lk_now()
RETURNING id, skill, skill_id, arguments, digest, why, execution_id, call_id, subject, agent, surface, trace_id, status, reason,
  edited_arguments, result, error, requested_at, expires_at, decided_at, decided_by, started_at, executed_at, trust = 'outside';

-- name: Reject
UPDATE approvals SET status = 'rejected', reason = $3, decided_at = lk_now(), decided_by = $4
 WHERE workspace_id = $1 AND id = $2 AND status = 'pending' AND expires_at > lk_now()
RETURNING id, skill, skill_id, arguments, digest, why, execution_id, call_id, subject, agent, surface, trace_id, status, reason,
  edited_arguments, result, error, requested_at, expires_at, decided_at, decided_by, started_at, executed_at, trust = 'outside';

-- name: RejectFor
UPDATE approvals SET status = 'rejected', reason = $3, decided_at = lk_now(), decided_by = $4
 WHERE workspace_id = $1 AND subject = $2 AND status = 'pending' AND expires_at > (SELECT lk_now())
RETURNING id, skill, skill_id, arguments, digest, why, execution_id, call_id, subject, agent, surface, trace_id, status, reason,
  edited_arguments, result, error, requested_at, expires_at, decided_at, decided_by, started_at, executed_at, trust = 'outside';

-- name: Expire
UPDATE approvals SET status = 'expired', decided_at = lk_now()
 WHERE workspace_id = $1 AND status = 'pending'
   AND id IN (SELECT a.id FROM approvals a
               WHERE a.workspace_id = $1 AND a.status = 'pending' AND a.expires_at <= (SELECT lk_now())
               ORDER BY a.expires_at LIMIT $2)
RETURNING id, skill, skill_id, arguments, digest, why, execution_id, call_id, subject, agent, surface, trace_id, status, reason,
  edited_arguments, result, error, requested_at, expires_at, decided_at, decided_by, started_at, executed_at, trust = 'outside';

-- name: Start
UPDATE approvals SET started_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'approved' AND started_at IS NULL;

-- name: Execute
UPDATE approvals SET status = 'executed', result = $3, error = $4, executed_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'approved';
