-- part: project
id, name, description, archived_at, version, created_by, created_at, updated_at, CAST(NULL AS uuid), CAST(NULL AS timestamptz)

-- part: milestone
id, name, description, archived_at, version, created_by, created_at, updated_at, project_id, due_at

-- name: Projects
SELECT @project
  FROM projects
 WHERE workspace_id = $1 AND (archived_at IS NOT NULL) = $2 AND (created_at, id) < ($3, $4)
 ORDER BY created_at DESC, id DESC
 LIMIT $5;

-- name: Milestones
SELECT @milestone
  FROM milestones
 WHERE workspace_id = $1 AND (archived_at IS NOT NULL) = $2 AND (created_at, id) < ($3, $4)
   AND (CAST($6 AS uuid) IS NULL OR project_id = $6)
 ORDER BY created_at DESC, id DESC
 LIMIT $5;

-- name: GetProject
SELECT @project FROM projects WHERE workspace_id = $1 AND id = $2;

-- name: GetMilestone
SELECT @milestone FROM milestones WHERE workspace_id = $1 AND id = $2;

-- name: ProjectTasks
SELECT status, count(*) FROM agent_tasks WHERE workspace_id = $1 AND project_id = $2 GROUP BY status;

-- name: MilestoneTasks
SELECT status, count(*) FROM agent_tasks WHERE workspace_id = $1 AND milestone_id = $2 GROUP BY status;

-- name: CreateProject
INSERT INTO projects (workspace_id, id, name, description, created_by, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, n.at, n.at
  FROM (SELECT lk_now() AS at) n
RETURNING @project;

-- name: CreateMilestone
INSERT INTO milestones (workspace_id, id, name, description, created_by, project_id, due_at, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, n.at, n.at
  FROM (SELECT lk_now() AS at) n
RETURNING @milestone;

-- name: HoldProject
-- Nobody archives, changes or deletes it until the transaction ends, or has it named by a new task.
UPDATE projects SET version = version WHERE workspace_id = $1 AND id = $2;

-- name: HoldMilestone
UPDATE milestones SET version = version WHERE workspace_id = $1 AND id = $2;

-- name: PatchProject
UPDATE projects SET name = $4, description = $5, archived_at = CASE WHEN $6 THEN coalesce(archived_at, lk_now()) END,
       version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND version = $3
RETURNING @project;

-- name: PatchMilestone
UPDATE milestones SET name = $4, description = $5, archived_at = CASE WHEN $6 THEN coalesce(archived_at, lk_now()) END,
       due_at = $7, version = version + 1, updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND version = $3
RETURNING @milestone;

-- part: usersOfProject
(SELECT count(*) FROM milestones WHERE workspace_id = $1 AND project_id = $2),
       (SELECT count(*) FROM agent_tasks WHERE workspace_id = $1 AND project_id = $2),
       (SELECT count(*) FROM usage_budgets WHERE workspace_id = $1 AND scope = 'project' AND scope_id = CAST($2 AS text))

-- part: usersOfMilestone
0,
       (SELECT count(*) FROM agent_tasks WHERE workspace_id = $1 AND milestone_id = $2),
       (SELECT count(*) FROM usage_budgets WHERE workspace_id = $1 AND scope = 'milestone' AND scope_id = CAST($2 AS text))

-- name: ProjectUsers
SELECT @usersOfProject;

-- name: MilestoneUsers
SELECT @usersOfMilestone;

-- name: DeleteProject
DELETE FROM projects
 WHERE workspace_id = $1 AND id = $2 AND (0, 0, 0) = (@usersOfProject);

-- name: DeleteMilestone
DELETE FROM milestones
 WHERE workspace_id = $1 AND id = $2 AND (0, 0, 0) = (@usersOfMilestone);
