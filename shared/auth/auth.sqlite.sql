-- why: people and keys are looked up before a workspace is known, which row-level security lets only functions do

-- name: Memberships
-- global: it says to which workspaces somebody belongs
SELECT u.id, u.email, u.sign_ins, u.session_generation, m.workspace_id, m.role
  FROM users u LEFT JOIN workspace_members m ON m.user_id = u.id
 WHERE (u.id = $1 OR u.issuer = $2 AND u.subject = $3 OR u.email = $4) AND u.disabled_at IS NULL
 ORDER BY m.created_at, m.workspace_id
 LIMIT 1000;

-- name: EnsureUser
-- global: users is a global table
-- A person's name belongs to the membership of each workspace.
INSERT INTO users (id, email, created_at, updated_at) VALUES ($1, $2, lk_now(), lk_now())
ON CONFLICT (email) DO UPDATE SET email = excluded.email
RETURNING id;

-- name: BindUser
-- global: users is a global table
UPDATE users SET issuer = $1, subject = $2, updated_at = lk_now()
 WHERE email = $3 AND subject IS NULL AND disabled_at IS NULL
RETURNING id;

-- name: SignIn
-- global: users is a global table
UPDATE users SET sign_ins = sign_ins + 1
 WHERE id = $1 AND sign_ins = $2 AND disabled_at IS NULL
RETURNING id;

-- name: EndSessions
-- global: users is a global table
UPDATE users SET session_generation = session_generation + 1 WHERE id = $1;

-- name: KeyByHash
-- global: it says to which workspace a key belongs
-- The effective role is the lower of the key's role and its creator's present role: see migration
-- 0024.
SELECT k.workspace_id, k.id, k.kind,
       CASE WHEN k.role IS NULL OR k.created_by NOT LIKE 'user:%' THEN k.role
            WHEN 'MEMBER' IN (k.role, m.role) THEN 'MEMBER'
            WHEN 'ADMIN' IN (k.role, m.role) THEN 'ADMIN'
            ELSE k.role END,
       k.scopes, k.allowed_origins, coalesce(k.last_used_at <= lk_plus(lk_now(), -3600000), true),
       k.persona
  FROM api_keys k
  LEFT JOIN users u ON u.id = substr(k.created_by, 6) AND k.created_by LIKE 'user:%' AND u.disabled_at IS NULL
  LEFT JOIN workspace_members m ON m.workspace_id = k.workspace_id AND m.user_id = u.id
 WHERE k.hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > lk_now())
   AND (k.role IS NULL OR k.created_by NOT LIKE 'user:%' OR m.role IS NOT NULL);
