-- name: Disable
-- global: users is a global table
UPDATE users SET disabled_at = lk_now() WHERE id = $1;

-- name: SeenUsers
-- global: what row-level security shows of a global table
SELECT email FROM users ORDER BY email;

-- name: DeleteUser
-- global: users is a global table
DELETE FROM users WHERE id = $1;

-- name: KeyHashes
SELECT hash FROM api_keys WHERE workspace_id = $1;
