-- What happened, for those who follow: live pages, webhooks and automations.
--
-- A transaction may commit after one that began later, so an id alone would hide
-- its rows from whoever has read further. Readers go by (xid, id) and read only
-- below lk_settled(): of what stands there no transaction is still open.

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE events (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  xid          bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
  id           bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  kind         text COLLATE "C" NOT NULL CHECK (length(kind) BETWEEN 1 AND 100),
  subject      text CHECK (length(subject) BETWEEN 1 AND 255), -- the id of what it happened to
  trace_id     text,
  data         text NOT NULL DEFAULT '{}' CHECK (length(data) <= 16384), -- a JSON object
  created_at   timestamptz NOT NULL
);
CREATE INDEX events_newest ON events (workspace_id, xid, id);
CREATE INDEX events_kind ON events (workspace_id, kind, xid, id);
CALL lk_protect('events', 'append');

CREATE FUNCTION lk_settled() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint
$$;

-- lk_begun is beyond every transaction that has begun: a position at or behind it is
-- of another cluster.
CREATE FUNCTION lk_begun() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint
$$;
REVOKE ALL ON FUNCTION lk_settled(), lk_begun() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lk_settled(), lk_begun() TO lanekeeper_app;

-- +goose Down
DROP FUNCTION lk_begun();
DROP FUNCTION lk_settled();
DROP TABLE events;
