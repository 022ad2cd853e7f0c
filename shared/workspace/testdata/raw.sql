-- name: Set
UPDATE workspaces SET settings = $2 WHERE id = $1;

-- name: Unknown
SELECT settings -> 'of_another_build' ->> 'a' FROM workspaces WHERE id = $1;
