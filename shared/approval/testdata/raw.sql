-- name: Become
UPDATE approvals SET status = $3, decided_at = CASE WHEN $3 = 'pending' THEN NULL ELSE lk_now() END,
       executed_at = CASE WHEN $3 = 'executed' THEN lk_now() END
 WHERE workspace_id = $1 AND id = $2;

-- name: Tamper
UPDATE approvals SET arguments = $3 WHERE workspace_id = $1 AND id = $2;

-- name: Rebind
UPDATE approvals SET digest = $3 WHERE workspace_id = $1 AND id = $2;

-- name: Begin
UPDATE approvals SET started_at = lk_now() WHERE workspace_id = $1 AND id = $2;

-- name: Set
UPDATE workspaces SET settings = $2 WHERE id = $1;

-- name: Note
INSERT INTO agent_memory (workspace_id, id, agent, category, content, content_hash, created_at, updated_at)
VALUES ($1, $2, 'test', 'note', $3, $4, lk_now(), lk_now());

-- name: Notes
SELECT content FROM agent_memory WHERE workspace_id = $1 AND category = 'note' ORDER BY created_at, id;
