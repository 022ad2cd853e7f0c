-- name: Begin
INSERT INTO executions (workspace_id, id, agent, surface, trace_id, parent_id, status, can_inherit_lock, input, timeout_seconds, sealed_input, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, 'running', $7, $8, $9, $10, lk_now(), lk_now());

-- name: SealedInput
SELECT sealed_input FROM executions WHERE workspace_id = $1 AND id = $2 AND sealed_input IS NOT NULL;

-- name: SealedInputs
SELECT id, sealed_input FROM executions
 WHERE workspace_id = $1 AND id > $2 AND sealed_input IS NOT NULL
 ORDER BY id
 LIMIT $3;

-- name: ResealInput
-- Only what was read is replaced: one that has ended meanwhile keeps none.
UPDATE executions SET sealed_input = $3 WHERE workspace_id = $1 AND id = $2 AND sealed_input = $4;

-- name: Seize
-- Locks the row, so that the execution can't end meanwhile.
UPDATE executions SET updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND status IN ('running', 'waiting', 'parked')
RETURNING trace_id, subject;

-- name: Await
UPDATE executions SET status = 'waiting', updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2;

-- name: End
UPDATE executions SET status = $3, result = $4, error = $5, sealed_input = NULL, updated_at = lk_now(), ended_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND subject IS NULL AND status IN ('running', 'waiting', 'parked');

-- name: Standing
SELECT status, subject FROM executions WHERE workspace_id = $1 AND id = $2;

-- name: SeizeParent
-- Transactions that end children of the same parent run one after the other.
UPDATE executions SET updated_at = lk_now()
 WHERE workspace_id = $1 AND id = (SELECT c.parent_id FROM executions c WHERE c.workspace_id = $1 AND c.id = $2);

-- name: Rejoin
-- A parent continues when the last child that it waited for has ended.
UPDATE executions SET status = 'running', updated_at = lk_now()
 WHERE workspace_id = $1 AND status = 'waiting'
   AND id = (SELECT c.parent_id FROM executions c WHERE c.workspace_id = $1 AND c.id = $2 AND c.can_inherit_lock)
   AND NOT EXISTS (SELECT 1 FROM executions s
                    WHERE s.workspace_id = $1 AND s.parent_id = executions.id AND s.can_inherit_lock
                      AND s.status IN ('running', 'waiting', 'parked'));

-- name: Park
UPDATE executions SET status = 'parked', updated_at = lk_now()
 WHERE workspace_id = $1 AND id = $2 AND subject IS NULL AND status = 'running';
