-- Who may come in: people, the workspaces they belong to, and keys of programs.

-- +goose Up
CREATE TABLE users (
  id          TEXT PRIMARY KEY,
  email       TEXT NOT NULL UNIQUE CHECK (length(email) BETWEEN 3 AND 254 AND email = lower(email)),
  name        TEXT NOT NULL DEFAULT '' CHECK (length(name) <= 255),
  issuer      TEXT CHECK (length(issuer) BETWEEN 1 AND 255), -- of the tokens the person comes with
  subject     TEXT CHECK (length(subject) BETWEEN 1 AND 255),
  sign_ins    INTEGER NOT NULL DEFAULT 0, -- counts sign-in links that were used: a link names the count it is good for
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  disabled_at INTEGER,
  UNIQUE (issuer, subject),
  CHECK ((issuer IS NULL) = (subject IS NULL))
) STRICT;

CREATE TABLE workspace_members (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE RESTRICT, -- who has done something is not forgotten
  role         TEXT NOT NULL CHECK (role IN ('OWNER', 'ADMIN', 'MEMBER')),
  created_by   TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, user_id)
) STRICT;
CREATE INDEX workspace_members_user ON workspace_members (user_id);

CREATE TABLE api_keys (
  workspace_id    TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id              TEXT NOT NULL,
  name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  kind            TEXT NOT NULL CHECK (kind IN ('api', 'site')),
  hash            BLOB NOT NULL UNIQUE CHECK (length(hash) = 32), -- SHA-256 of the secret, which is kept nowhere
  prefix          TEXT NOT NULL CHECK (length(prefix) BETWEEN 1 AND 64), -- what is shown of the key
  role            TEXT CHECK (role IN ('OWNER', 'ADMIN', 'MEMBER')),
  scopes          TEXT NOT NULL DEFAULT '[]' CHECK (length(scopes) BETWEEN 2 AND 4096), -- a JSON list
  allowed_origins TEXT NOT NULL DEFAULT '[]' CHECK (length(allowed_origins) BETWEEN 2 AND 8192), -- a JSON list
  created_by      TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at      INTEGER NOT NULL,
  expires_at      INTEGER,
  last_used_at    INTEGER, -- to the hour
  revoked_at      INTEGER,
  PRIMARY KEY (workspace_id, id),
  CHECK ((kind = 'site') = (role IS NULL)),
  CHECK (expires_at > created_at)
) STRICT;

-- +goose Down
DROP TABLE api_keys;
DROP TABLE workspace_members;
DROP TABLE users;
