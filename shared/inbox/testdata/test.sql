-- name: Slug
SELECT slug FROM workspaces WHERE id = $1;
