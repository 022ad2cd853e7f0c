-- Outbound webhooks: who is told of events, what each attempt came to, and the rows of the outbox by
-- which they and people are told. Those are written in the transaction of the change.
-- oldest: 46

-- +goose Up
CREATE TABLE webhook_endpoints (
  workspace_id    TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id              TEXT NOT NULL,
  url             TEXT NOT NULL CHECK (length(url) BETWEEN 1 AND 2048),
  events          TEXT NOT NULL CHECK (json_valid(events)),
  description     TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 1000),
  challenge       INTEGER NOT NULL DEFAULT 0 CHECK (challenge IN (0, 1)),
  enabled         INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  disabled_reason TEXT CHECK (length(disabled_reason) <= 500),
  failures        INTEGER NOT NULL DEFAULT 0,
  failing_since   INTEGER,
  sealed          BLOB NOT NULL CHECK (length(sealed) BETWEEN 1 AND 80000),
  sealed_old      BLOB CHECK (length(sealed_old) BETWEEN 1 AND 80000),
  old_until       INTEGER,
  version         INTEGER NOT NULL DEFAULT 1 CHECK (version > 0),
  created_by      TEXT NOT NULL CHECK (length(created_by) BETWEEN 1 AND 255),
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id),
  CHECK ((sealed_old IS NULL) = (old_until IS NULL)),
  CHECK (disabled_reason IS NULL OR NOT enabled)
) STRICT;

CREATE TABLE deliveries (
  workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  id           TEXT NOT NULL,
  endpoint_id  TEXT NOT NULL,
  outbox_id    TEXT,
  webhook_id   TEXT NOT NULL CHECK (length(webhook_id) BETWEEN 1 AND 255),
  event        TEXT NOT NULL CHECK (length(event) BETWEEN 1 AND 100),
  subject      TEXT CHECK (length(subject) <= 255),
  attempt      INTEGER NOT NULL CHECK (attempt > 0),
  status       TEXT NOT NULL CHECK (status IN ('delivered', 'failed')),
  status_code  INTEGER CHECK (status_code BETWEEN 100 AND 999),
  error        TEXT CHECK (length(error) <= 1000),
  duration_ms  INTEGER CHECK (duration_ms >= 0),
  next_at      INTEGER,
  body         TEXT NOT NULL CHECK (length(body) <= 65536),
  trace_id     TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT;
CREATE INDEX deliveries_newest ON deliveries (workspace_id, created_at DESC, id DESC);
CREATE INDEX deliveries_endpoint ON deliveries (workspace_id, endpoint_id, created_at DESC, id DESC);
CREATE INDEX deliveries_attempts ON deliveries (workspace_id, outbox_id, attempt);

-- events_sent adds the rows by which endpoints, and people over channels, are told of an event. What
-- happened to one task is sent in the order in which it happened.
-- +goose StatementBegin
CREATE TRIGGER events_sent AFTER INSERT ON events
WHEN NEW.kind IN ('task.status_changed', 'task.dependency_cycle', 'agent.stale', 'budget.warning', 'budget.exhausted', 'approval.requested',
    'lane.wait_warning', 'queue.waiting')
  OR NEW.kind IN ('execution.completed', 'execution.failed', 'execution.cancelled', 'execution.stalled') AND NEW.data ->> 'subject' = 'heartbeat' BEGIN
  INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, max_attempts, due_at, trace_id, receiver, created_at, updated_at)
  SELECT NEW.workspace_id, lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' || substr(hex(randomblob(2)), 2)
           || '-' || hex(randomblob(6))),
         r.kind, r.topic, r.key, r.order_key, CASE WHEN r.order_key IS NOT NULL THEN NEW.id END,
         json_patch(json_object('event', r.told, 'subject', NEW.subject, 'data', json(NEW.data), 'at_us', NEW.created_at), r.more),
         r.attempts, lk_now(), coalesce(NEW.trace_id, lk_trace(), ''), r.receiver, lk_now(), lk_now()
    FROM (
      SELECT 'webhook' AS kind, 'webhook' AS topic, 'webhook:' || NEW.id || ':' || e.id AS key,
             CASE WHEN s.told LIKE 'task.%' THEN 'webhook:' || e.id || ':' || NEW.subject END AS order_key,
             s.told, json_object('endpoint', e.id) AS more, 10 AS attempts, e.id AS receiver
        FROM (SELECT CASE WHEN NEW.kind LIKE 'execution.%' THEN 'heartbeat.completed' WHEN NEW.kind = 'queue.waiting' THEN 'lane.wait_warning' ELSE NEW.kind END AS told) s
        JOIN webhook_endpoints e ON e.workspace_id = NEW.workspace_id AND e.enabled
       WHERE EXISTS (SELECT 1 FROM json_each(e.events) f WHERE f.value IN ('*', s.told))
      UNION ALL
      SELECT 'message', 'notice.' || json_extract(w.settings, n.fullkey || '.channel'), 'notice:' || NEW.id || ':' || (n.key + 1), NULL,
             s.told, json_object('address', json_extract(w.settings, n.fullkey || '.address')), 8, NULL
        FROM (SELECT CASE WHEN NEW.kind LIKE 'execution.%' THEN 'heartbeat.completed' WHEN NEW.kind = 'queue.waiting' THEN 'lane.wait_warning' ELSE NEW.kind END AS told) s
        JOIN (SELECT CASE WHEN json_valid(settings) THEN settings ELSE '{}' END AS settings FROM workspaces WHERE id = NEW.workspace_id) w
        JOIN json_each(w.settings, '$.notifications') n ON json_type(w.settings, '$.notifications') = 'array'
       WHERE json_extract(w.settings, n.fullkey || '.channel') <> '' AND json_extract(w.settings, n.fullkey || '.address') <> ''
         AND EXISTS (SELECT 1 FROM json_each(w.settings, n.fullkey || '.events') f WHERE f.value IN ('*', s.told))
    ) r
   WHERE true
  ON CONFLICT (workspace_id, key) DO NOTHING;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER events_sent;
DROP TABLE deliveries;
DROP TABLE webhook_endpoints;
