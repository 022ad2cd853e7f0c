-- name: Become
UPDATE outbox SET status = $2 WHERE workspace_id = $1 AND topic = 'test';

-- name: Forget
DELETE FROM outbox WHERE workspace_id = $1 AND topic = 'test';
