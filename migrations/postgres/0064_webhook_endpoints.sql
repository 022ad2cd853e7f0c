-- Outbound webhooks: who is told of events, what each attempt came to, and the rows of the outbox by
-- which they and people are told. Those are written in the transaction of the change.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE TABLE webhook_endpoints (
  workspace_id    uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id              uuid NOT NULL,
  url             text NOT NULL CHECK (length(url) BETWEEN 1 AND 2048),
  events          jsonb NOT NULL, -- an array of names, or ["*"]
  description     text NOT NULL DEFAULT '' CHECK (length(description) <= 1000),
  challenge       boolean NOT NULL DEFAULT false, -- a new URL must answer the ownership challenge
  enabled         boolean NOT NULL DEFAULT true,
  disabled_reason text CHECK (length(disabled_reason) <= 500), -- set where it was not a person
  failures        integer NOT NULL DEFAULT 0, -- attempts since it has accepted one
  failing_since   timestamptz,
  sealed          bytea NOT NULL CHECK (length(sealed) BETWEEN 1 AND 80000),
  sealed_old      bytea CHECK (length(sealed_old) BETWEEN 1 AND 80000), -- the secret before, valid until old_until
  old_until       timestamptz,
  version         integer NOT NULL DEFAULT 1 CHECK (version > 0), -- counts changes
  created_by      text NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at      timestamptz NOT NULL,
  updated_at      timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id),
  CHECK ((sealed_old IS NULL) = (old_until IS NULL)),
  CHECK (disabled_reason IS NULL OR NOT enabled)
);
CALL lk_protect('webhook_endpoints');

CREATE TABLE deliveries (
  workspace_id uuid NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           uuid NOT NULL,
  endpoint_id  uuid NOT NULL, -- may be gone
  outbox_id    uuid,          -- the row that was tried, may be gone; null: a test
  webhook_id   text NOT NULL CHECK (length(webhook_id) BETWEEN 1 AND 255),
  event        text NOT NULL CHECK (length(event) BETWEEN 1 AND 100),
  subject      text CHECK (length(subject) <= 255), -- the id of what it happened to
  attempt      integer NOT NULL CHECK (attempt > 0),
  status       text NOT NULL CHECK (status IN ('delivered', 'failed')),
  status_code  integer CHECK (status_code BETWEEN 100 AND 999),
  error        text CHECK (length(error) <= 1000),
  duration_ms  bigint CHECK (duration_ms >= 0),
  next_at      timestamptz, -- when it is tried again
  body         text NOT NULL CHECK (length(body) <= 65536),
  trace_id     text NOT NULL,
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id)
);
CREATE INDEX deliveries_newest ON deliveries (workspace_id, created_at DESC, id DESC);
CREATE INDEX deliveries_endpoint ON deliveries (workspace_id, endpoint_id, created_at DESC, id DESC);
CREATE INDEX deliveries_attempts ON deliveries (workspace_id, outbox_id, attempt);
CALL lk_protect('deliveries');

-- lk_event_sent adds the rows by which endpoints, and people over channels, are told of an event. What
-- happened to one task is sent in the order in which it happened: who writes such an event holds the
-- lock of the task's row.
-- +goose StatementBegin
CREATE FUNCTION lk_event_sent() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  told text := CASE WHEN NEW.kind LIKE 'execution.%' THEN 'heartbeat.completed' WHEN NEW.kind = 'queue.waiting' THEN 'lane.wait_warning' ELSE NEW.kind END;
  what jsonb;
BEGIN
  IF NEW.kind LIKE 'execution.%' AND CAST(NEW.data AS jsonb) ->> 'subject' IS DISTINCT FROM 'heartbeat' THEN
    RETURN NULL;
  END IF;
  what := jsonb_build_object('event', told, 'subject', NEW.subject, 'data', CAST(NEW.data AS jsonb),
    'at_us', CAST(extract(epoch FROM NEW.created_at) * 1000000 AS bigint));
  INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, max_attempts, due_at, trace_id, receiver, created_at, updated_at)
  SELECT NEW.workspace_id, gen_random_uuid(), 'webhook', 'webhook', 'webhook:' || NEW.id || ':' || e.id,
         CASE WHEN told LIKE 'task.%' THEN 'webhook:' || e.id || ':' || NEW.subject END,
         CASE WHEN told LIKE 'task.%' AND NEW.subject IS NOT NULL THEN NEW.id END,
         what || jsonb_build_object('endpoint', e.id), 10, lk_now(), coalesce(NEW.trace_id, ''), CAST(e.id AS text), lk_now(), lk_now()
    FROM webhook_endpoints e
   WHERE e.workspace_id = NEW.workspace_id AND e.enabled AND e.events ?| ARRAY['*', told]
  UNION ALL
  SELECT NEW.workspace_id, gen_random_uuid(), 'message', 'notice.' || (n.value ->> 'channel'), 'notice:' || NEW.id || ':' || n.ordinality, NULL, NULL,
         what || jsonb_build_object('address', n.value ->> 'address'), 8, lk_now(), coalesce(NEW.trace_id, ''), NULL, lk_now(), lk_now()
    FROM workspaces w
   CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(w.settings -> 'notifications') WHEN 'array' THEN w.settings -> 'notifications' ELSE '[]' END)
         WITH ORDINALITY n (value, ordinality)
   WHERE w.id = NEW.workspace_id AND n.value -> 'events' ?| ARRAY['*', told] AND n.value ->> 'channel' <> '' AND n.value ->> 'address' <> ''
  ON CONFLICT (workspace_id, key) DO NOTHING;
  RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lk_event_sent() FROM PUBLIC; -- triggers need no right to it
CREATE TRIGGER event_sent AFTER INSERT ON events FOR EACH ROW
  WHEN (NEW.kind IN ('task.status_changed', 'task.dependency_cycle', 'agent.stale', 'budget.warning', 'budget.exhausted', 'approval.requested',
    'lane.wait_warning', 'queue.waiting', 'execution.completed', 'execution.failed', 'execution.cancelled', 'execution.stalled'))
  EXECUTE FUNCTION lk_event_sent();

-- +goose Down
DROP TRIGGER event_sent ON events;
DROP FUNCTION lk_event_sent();
DROP TABLE deliveries;
DROP TABLE webhook_endpoints;
