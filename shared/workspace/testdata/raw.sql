-- name: Set
UPDATE workspaces SET settings = $2 WHERE id = $1;
