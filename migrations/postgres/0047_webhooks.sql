-- What comes in from the world: the sources that may send, and one row for each delivery.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE webhook_sources (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL,
  name         text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 63), -- part of its address
  kind         text NOT NULL CHECK (kind IN ('github', 'stripe', 'slack', 'standard', 'hmac', 'token')),
  sealed       bytea NOT NULL CHECK (length(sealed) BETWEEN 1 AND 80000),
  sealed_old   bytea CHECK (length(sealed_old) BETWEEN 1 AND 80000), -- the secret before, valid until old_until
  old_until    timestamptz,
  header       text CHECK (length(header) BETWEEN 1 AND 100),
  encoding     text CHECK (encoding IN ('hex', 'base64')),
  prefix       text CHECK (length(prefix) BETWEEN 1 AND 100),
  id_path      text CHECK (length(id_path) BETWEEN 1 AND 200),
  rules        text NOT NULL DEFAULT '[]' CHECK (length(rules) BETWEEN 2 AND 65536), -- a JSON array
  enabled      boolean NOT NULL DEFAULT true,
  rejected     bigint NOT NULL DEFAULT 0, -- requests with a wrong signature
  rejected_at  timestamptz,
  version      integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes
  created_by   text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, name),
  CHECK ((sealed_old IS NULL) = (old_until IS NULL))
);
CALL lk_protect('webhook_sources');

CREATE TABLE inbox (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL,
  source_id    uuid NOT NULL, -- may be gone
  source       text NOT NULL CHECK (length(source) BETWEEN 1 AND 63),
  delivery_id  text COLLATE "C" NOT NULL CHECK (length(delivery_id) BETWEEN 1 AND 255),
  event        text NOT NULL CHECK (length(event) <= 255),
  headers      text NOT NULL CHECK (length(headers) BETWEEN 2 AND 65536), -- a JSON object, without credentials
  body         bytea NOT NULL,
  digest       text NOT NULL CHECK (length(digest) = 64), -- SHA-256 of the body
  status       text NOT NULL DEFAULT 'received' CHECK (status IN ('received', 'working', 'done', 'failed', 'parked')),
  attempts     integer NOT NULL DEFAULT 0, -- counted before the work starts
  next_at      timestamptz,                -- of one that failed: when it is tried again
  action       text CHECK (length(action) <= 300), -- that its rule asks for
  error        text,
  duplicates   integer NOT NULL DEFAULT 0, -- the same delivery again
  conflicts    integer NOT NULL DEFAULT 0, -- those of them with another body
  replays      integer NOT NULL DEFAULT 0, -- how often people had it done again
  trace_id     text NOT NULL,
  execution_id uuid,
  received_at  timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  ended_at     timestamptz,
  PRIMARY KEY (workspace_id, id),
  UNIQUE (workspace_id, source_id, delivery_id),
  CHECK ((status = 'failed') = (next_at IS NOT NULL)),
  CHECK ((status IN ('done', 'parked')) = (ended_at IS NOT NULL))
);
CREATE INDEX inbox_newest ON inbox (workspace_id, received_at DESC, id DESC);
CALL lk_protect('inbox');

-- lk_webhook_source is a source as the world addresses it, before any workspace is known.
CREATE FUNCTION lk_webhook_source(p_slug text, p_name text)
RETURNS TABLE (workspace_id uuid, id uuid, kind text, sealed bytea, sealed_old bytea,
               header text, encoding text, prefix text, id_path text, enabled boolean)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT s.workspace_id, s.id, s.kind, s.sealed, CASE WHEN s.old_until > lk_now() THEN s.sealed_old END,
         s.header, s.encoding, s.prefix, s.id_path, s.enabled
    FROM workspaces w JOIN webhook_sources s ON s.workspace_id = w.id
   WHERE w.slug = p_slug AND s.name = p_name
$$;
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_webhook_source(text, text) SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_webhook_source(text, text) FROM PUBLIC;
  GRANT EXECUTE ON FUNCTION lk_webhook_source(text, text) TO lanekeeper_app;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION lk_webhook_source(text, text);
DROP TABLE inbox;
DROP TABLE webhook_sources;
