-- The ground every later migration stands on. Roles and row-level security have
-- no counterpart here; lk_now and lk_plus are registered functions.

-- +goose Up
CREATE TABLE workspaces (
  id         TEXT PRIMARY KEY,
  slug       TEXT NOT NULL UNIQUE CHECK (length(slug) BETWEEN 1 AND 63 AND slug NOT GLOB '*[^a-z0-9-]*' AND slug GLOB '[a-z0-9]*'),
  name       TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  settings   TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(settings)),
  created_at INTEGER NOT NULL DEFAULT (lk_now()),
  updated_at INTEGER NOT NULL DEFAULT (lk_now())
) STRICT;

-- +goose Down
DROP TABLE workspaces;
