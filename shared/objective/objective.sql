-- name: Create
INSERT INTO agent_objectives (workspace_id, id, title, description, priority, done_criterion, created_by, trust, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, CASE WHEN $8 THEN 'outside' ELSE 'operator' END, n.at, n.at
  FROM (SELECT lk_now() AS at) n;

-- name: Unset
-- Deletes the objective only if no beat has worked on it and no person has changed it.
DELETE FROM agent_objectives
 WHERE workspace_id = $1 AND id = $2 AND version = 1
   AND NOT EXISTS (SELECT 1 FROM objective_steps WHERE workspace_id = $1 AND objective_id = $2 AND attempts > 0);

-- name: Gone
SELECT count(*) = 0 FROM agent_objectives WHERE workspace_id = $1 AND id = $2;

-- name: Due
-- Active objectives by priority, each with the next step of its plan. A plan with a failed step is
-- stale and has no next step. Those whose run waits for a person come last: they take no room from others.
SELECT o.id, o.title, o.priority, o.plan_version,
       (SELECT CASE WHEN max(CASE WHEN s.status = 'failed' THEN 1 ELSE 0 END) = 1 THEN NULL
                    ELSE min(CASE WHEN s.status = 'pending' THEN s.number END) END
          FROM objective_steps s
         WHERE s.workspace_id = o.workspace_id AND s.objective_id = o.id AND s.plan_version = o.plan_version)
  FROM agent_objectives o
 WHERE o.workspace_id = $1 AND o.status = 'active'
 ORDER BY CASE WHEN 'objective:' || CAST(o.id AS text) IN (
            SELECT a.subject
              FROM approvals a
              JOIN executions e ON e.workspace_id = a.workspace_id AND e.subject = a.subject AND e.status = 'waiting'
             WHERE a.workspace_id = $1 AND a.status = 'pending' AND a.expires_at > (SELECT lk_now())) THEN 1 ELSE 0 END,
          o.priority DESC, o.created_at, o.id
 LIMIT $2;

-- name: Get
SELECT id, title, description, priority, done_criterion, status, status_reason, plan_version, plan_attempts, summary, created_by,
       version, created_at, updated_at, completed_at, trust = 'outside', plan_version - resumed_plan_version
  FROM agent_objectives
 WHERE workspace_id = $1 AND id = $2;

-- name: List
SELECT id, title, description, priority, done_criterion, status, status_reason, plan_version, plan_attempts, summary, created_by,
       version, created_at, updated_at, completed_at, trust = 'outside', plan_version - resumed_plan_version,
       (SELECT count(*) FROM objective_steps s
         WHERE s.workspace_id = o.workspace_id AND s.objective_id = o.id AND s.plan_version = o.plan_version),
       (SELECT count(*) FROM objective_steps s
         WHERE s.workspace_id = o.workspace_id AND s.objective_id = o.id AND s.plan_version = o.plan_version AND s.status = 'done'),
       (SELECT s.title FROM objective_steps s
         WHERE s.workspace_id = o.workspace_id AND s.objective_id = o.id AND s.plan_version = o.plan_version AND s.status = 'pending'
           AND NOT EXISTS (SELECT 1 FROM objective_steps f
                            WHERE f.workspace_id = s.workspace_id AND f.objective_id = s.objective_id AND f.plan_version = s.plan_version
                              AND f.status = 'failed')
         ORDER BY s.number LIMIT 1)
  FROM agent_objectives o
 WHERE workspace_id = $1
   AND (CAST($2 AS text) IS NULL OR status = $2)
   AND priority >= $3
   AND (CAST($4 AS text) IS NULL OR lower(title || ' ' || description) LIKE lower(CAST($4 AS text)) ESCAPE '\')
   AND (created_at, id) < ($5, $6)
 ORDER BY created_at DESC, id DESC
 LIMIT $7;

-- name: Steps
SELECT s.plan_version, s.number, s.title, s.skill, s.inputs, s.done_criterion, s.status, s.attempts, s.result, s.execution_id, s.ended_at
  FROM objective_steps s
  JOIN agent_objectives o ON o.workspace_id = s.workspace_id AND o.id = s.objective_id AND o.plan_version = s.plan_version
 WHERE s.workspace_id = $1 AND s.objective_id = $2
 ORDER BY s.number;

-- name: CountPlanning
UPDATE agent_objectives SET plan_attempts = plan_attempts + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'active';

-- name: NewPlan
UPDATE agent_objectives SET plan_version = plan_version + 1, plan_attempts = 0, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'active'
RETURNING plan_version;

-- name: AddStep
INSERT INTO objective_steps (workspace_id, objective_id, plan_version, number, title, skill, inputs, done_criterion, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, lk_now());

-- name: CountStep
UPDATE objective_steps SET attempts = attempts + 1, execution_id = $5
 WHERE workspace_id = $1 AND objective_id = $2 AND plan_version = $3 AND number = $4 AND status = 'pending';

-- name: EndStep
UPDATE objective_steps SET status = $4, result = $5, ended_at = lk_now()
 WHERE workspace_id = $1 AND objective_id = $2 AND number = $3 AND status = 'pending'
   AND plan_version = (SELECT plan_version FROM agent_objectives WHERE workspace_id = $1 AND id = $2)
RETURNING number;

-- name: Touch
UPDATE agent_objectives SET updated_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: Distrust
UPDATE agent_objectives SET trust = 'outside' WHERE workspace_id = $1 AND id = $2 AND trust <> 'outside';

-- name: Complete
UPDATE agent_objectives SET status = 'completed', summary = $3, status_reason = NULL, completed_at = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'active'
RETURNING id;

-- name: Pause
UPDATE agent_objectives SET status = 'paused', status_reason = $3, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'active'
RETURNING id;

-- name: Open
SELECT count(*)
  FROM objective_steps s
  JOIN agent_objectives o ON o.workspace_id = s.workspace_id AND o.id = s.objective_id AND o.plan_version = s.plan_version
 WHERE s.workspace_id = $1 AND s.objective_id = $2 AND s.status = 'pending';

-- name: Patch
-- Updates only the version that was read.
UPDATE agent_objectives SET title = $4, description = $5, priority = $6, done_criterion = $7, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND version = $3;

-- name: PlanAnew
-- A plan of a person does not count.
UPDATE agent_objectives SET plan_version = plan_version + 1, resumed_plan_version = plan_version + 1, plan_attempts = 0,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND version = $3 AND status <> 'completed'
RETURNING plan_version;

-- name: Resume
UPDATE agent_objectives SET status = 'active', status_reason = NULL, plan_attempts = 0, resumed_plan_version = plan_version,
       updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status = 'paused';

-- name: TryAgain
UPDATE objective_steps SET attempts = 0
 WHERE workspace_id = $1 AND objective_id = $2 AND status = 'pending'
   AND plan_version = (SELECT plan_version FROM agent_objectives WHERE workspace_id = $1 AND id = $2);

-- name: Finish
UPDATE agent_objectives SET status = 'completed', summary = $3, status_reason = NULL, completed_at = lk_now(), updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status <> 'completed';

-- name: Delete
-- The plan is deleted with it.
DELETE FROM agent_objectives WHERE workspace_id = $1 AND id = $2;
