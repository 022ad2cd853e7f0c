-- What happened, for those who follow: live pages, webhooks and automations.
-- There is one writer at a time, so ids are in the order of commits and xid is 0.

-- +goose Up
CREATE TABLE events (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  xid          INTEGER NOT NULL DEFAULT 0,
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  kind         TEXT NOT NULL CHECK (length(kind) BETWEEN 1 AND 100),
  subject      TEXT CHECK (length(subject) BETWEEN 1 AND 255),
  trace_id     TEXT,
  data         TEXT NOT NULL DEFAULT '{}' CHECK (length(data) <= 16384),
  created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX events_newest ON events (workspace_id, xid, id);
CREATE INDEX events_kind ON events (workspace_id, kind, xid, id);

-- +goose Down
DROP TABLE events;
