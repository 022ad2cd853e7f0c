-- why: people and keys are looked up before a workspace is known, which row-level security lets only functions do

-- name: Memberships
-- global: it says to which workspaces somebody belongs
SELECT user_id, email, sign_ins, session_generation, workspace_id, role FROM lk_memberships($1, $2, $3, $4);

-- name: EnsureUser
-- global: users is a global table
-- A person's name belongs to the membership of each workspace.
SELECT lk_ensure_user($1, $2, '');

-- name: BindUser
-- global: users is a global table
SELECT id FROM lk_bind_user($1, $2, $3) AS id;

-- name: SignIn
-- global: users is a global table
SELECT id FROM lk_sign_in($1, $2) AS id;

-- name: EndSessions
-- global: users is a global table
SELECT lk_end_sessions($1);

-- name: KeyByHash
-- global: it says to which workspace a key belongs
SELECT workspace_id, id, kind, role, scopes, allowed_origins, stale, persona FROM lk_api_key($1);
