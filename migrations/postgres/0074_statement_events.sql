-- What triggers do for tasks, attempts and events they do once for a statement, not once for a row: a
-- thousand tasks that end together cost one statement of each kind.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
DROP TRIGGER event_added ON agent_tasks;
DROP TRIGGER event_changed ON agent_tasks;
DROP TRIGGER usage_noted ON agent_tasks;
DROP FUNCTION lk_event_of_task();
DROP FUNCTION lk_note_usage();
DROP TRIGGER budget_settled ON agent_task_attempts;
DROP FUNCTION lk_settle_attempt();
DROP TRIGGER event_sent ON events;
DROP FUNCTION lk_event_sent();

-- +goose StatementBegin
CREATE FUNCTION lk_tasks_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  SELECT t.workspace_id, 'task.created', t.id,
         jsonb_strip_nulls(jsonb_build_object('title', t.title, 'status', t.status, 'cancelled', t.cancelled, 'priority', t.priority, 'attempt', t.attempt)),
         t.created_at
    FROM added t;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_added AFTER INSERT ON agent_tasks REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION lk_tasks_added();

-- A session keeps the plan of its first statement, which may have changed one task. A loop over a
-- thousand times a thousand rows would be slow, so rows before and after are joined by their hash.
-- +goose StatementBegin
CREATE FUNCTION lk_tasks_changed() RETURNS trigger LANGUAGE plpgsql SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  SELECT t.workspace_id, 'task.status_changed', t.id,
         jsonb_strip_nulls(jsonb_build_object('title', t.title, 'status', t.status, 'previous_status', o.status, 'cancelled', t.cancelled,
           'priority', t.priority, 'attempt', t.attempt)),
         lk_now()
    FROM changed t
    JOIN former o ON o.workspace_id = t.workspace_id AND o.id = t.id
   WHERE o.status <> t.status OR o.cancelled <> t.cancelled;
  IF EXISTS (SELECT FROM changed WHERE status = 'COMPLETED') THEN
    INSERT INTO usage_estimates (workspace_id, task_id, task_type, complexity, used, finished_at)
    SELECT t.workspace_id, t.id, coalesce(t.task_type, ''), least(1000, coalesce(nullif(ceil(CAST(substring(
             CASE json_typeof(CAST(t.metadata AS json) -> 'complexity') WHEN 'number' THEN CAST(t.metadata AS json) ->> 'complexity' END
             FROM '^[0-9]{1,9}(?:\.[0-9]{1,9})?$') AS numeric)), 0), 5)), u.tokens, lk_now()
      FROM changed t
      JOIN former o ON o.workspace_id = t.workspace_id AND o.id = t.id
     CROSS JOIN LATERAL (SELECT sum(l.total_tokens) AS tokens FROM agent_usage_logs l WHERE l.workspace_id = t.workspace_id AND l.task_id = t.id) u
     WHERE t.status = 'COMPLETED' AND o.status <> 'COMPLETED' AND u.tokens > 0
    ON CONFLICT (workspace_id, task_id) DO UPDATE SET
      task_type = EXCLUDED.task_type, complexity = EXCLUDED.complexity, used = EXCLUDED.used, finished_at = EXCLUDED.finished_at;
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_changed AFTER UPDATE ON agent_tasks REFERENCING OLD TABLE AS former NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION lk_tasks_changed();

-- The reservations of an attempt are looked up by it, whatever the statistics say: those that are open
-- may be as many as the attempts that end.
-- +goose StatementBegin
CREATE FUNCTION lk_settle_attempts() RETURNS trigger LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  UPDATE usage_reservations r SET settled_at = lk_now(), expires_at = lk_now()
    FROM changed a
   WHERE a.ended_at IS NOT NULL AND r.workspace_id = a.workspace_id AND r.task_id = a.task_id AND r.attempt = a.number
     AND coalesce(r.settled_at, '-infinity') = '-infinity';
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER budget_settled AFTER UPDATE ON agent_task_attempts REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION lk_settle_attempts();

-- lk_events_sent adds the rows by which endpoints, and people over channels, are told of events. What
-- happened to one task is sent in the order in which it happened: who writes such an event holds the
-- lock of the task's row.
-- +goose StatementBegin
CREATE FUNCTION lk_events_sent() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  kinds CONSTANT text[] := ARRAY['task.status_changed', 'task.dependency_cycle', 'agent.stale', 'budget.warning', 'budget.exhausted',
    'approval.requested', 'lane.wait_warning', 'queue.waiting', 'execution.completed', 'execution.failed', 'execution.cancelled', 'execution.stalled'];
BEGIN
  IF NOT EXISTS (SELECT FROM added WHERE kind = ANY (kinds))
     OR NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.workspace_id IN (SELECT workspace_id FROM added) AND e.enabled)
        AND NOT EXISTS (SELECT FROM workspaces w WHERE w.id IN (SELECT workspace_id FROM added) AND w.settings ? 'notifications') THEN
    RETURN NULL;
  END IF;
  INSERT INTO outbox (workspace_id, id, kind, topic, key, order_key, seq, payload, max_attempts, due_at, trace_id, receiver, created_at, updated_at)
  WITH told AS (
    SELECT n.workspace_id, n.id, n.subject, n.trace_id, k.name,
           jsonb_build_object('event', k.name, 'subject', n.subject, 'data', CAST(n.data AS jsonb),
             'at_us', CAST(extract(epoch FROM n.created_at) * 1000000 AS bigint)) AS what
      FROM added n
     CROSS JOIN LATERAL (SELECT CASE WHEN n.kind LIKE 'execution.%' THEN 'heartbeat.completed' WHEN n.kind = 'queue.waiting' THEN 'lane.wait_warning'
                                     ELSE n.kind END AS name) k
     WHERE n.kind = ANY (kinds) AND (n.kind NOT LIKE 'execution.%' OR CAST(n.data AS jsonb) ->> 'subject' = 'heartbeat'))
  SELECT t.workspace_id, gen_random_uuid(), 'webhook', 'webhook', 'webhook:' || t.id || ':' || e.id,
         CASE WHEN t.name LIKE 'task.%' THEN 'webhook:' || e.id || ':' || t.subject END,
         CASE WHEN t.name LIKE 'task.%' AND t.subject IS NOT NULL THEN t.id END,
         t.what || jsonb_build_object('endpoint', e.id), 10, lk_now(), coalesce(t.trace_id, ''), CAST(e.id AS text), lk_now(), lk_now()
    FROM told t
    JOIN webhook_endpoints e ON e.workspace_id = t.workspace_id AND e.enabled AND e.events ?| ARRAY['*', t.name]
  UNION ALL
  SELECT t.workspace_id, gen_random_uuid(), 'message', 'notice.' || (n.value ->> 'channel'), 'notice:' || t.id || ':' || n.ordinality, NULL, NULL,
         t.what || jsonb_build_object('address', n.value ->> 'address'), 8, lk_now(), coalesce(t.trace_id, ''), NULL, lk_now(), lk_now()
    FROM told t
    JOIN workspaces w ON w.id = t.workspace_id
   CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(w.settings -> 'notifications') WHEN 'array' THEN w.settings -> 'notifications' ELSE '[]' END)
         WITH ORDINALITY n (value, ordinality)
   WHERE n.value -> 'events' ?| ARRAY['*', t.name] AND n.value ->> 'channel' <> '' AND n.value ->> 'address' <> ''
  ON CONFLICT (workspace_id, key) DO NOTHING;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_sent AFTER INSERT ON events REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION lk_events_sent();
REVOKE ALL ON FUNCTION lk_tasks_added(), lk_tasks_changed(), lk_settle_attempts(), lk_events_sent() FROM PUBLIC; -- triggers need no right to them

-- +goose Down
DROP FUNCTION lk_events_sent() CASCADE;
DROP FUNCTION lk_settle_attempts() CASCADE;
DROP FUNCTION lk_tasks_changed() CASCADE;
DROP FUNCTION lk_tasks_added() CASCADE;
-- +goose StatementBegin
CREATE FUNCTION lk_event_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at)
  VALUES (NEW.workspace_id, CASE WHEN TG_OP = 'INSERT' THEN 'task.created' ELSE 'task.status_changed' END, NEW.id,
    jsonb_strip_nulls(jsonb_build_object('title', NEW.title, 'status', NEW.status,
      'previous_status', CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, 'cancelled', NEW.cancelled, 'priority', NEW.priority, 'attempt', NEW.attempt)),
    CASE WHEN TG_OP = 'INSERT' THEN NEW.created_at ELSE lk_now() END);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION lk_settle_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE usage_reservations SET settled_at = lk_now(), expires_at = lk_now()
   WHERE workspace_id = NEW.workspace_id AND task_id = NEW.task_id AND attempt = NEW.number AND settled_at IS NULL;
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION lk_note_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage_estimates (workspace_id, task_id, task_type, complexity, used, finished_at)
  SELECT NEW.workspace_id, NEW.id, coalesce(NEW.task_type, ''), least(1000, coalesce(nullif(ceil(CAST(substring(
           CASE json_typeof(CAST(NEW.metadata AS json) -> 'complexity') WHEN 'number' THEN CAST(NEW.metadata AS json) ->> 'complexity' END
           FROM '^[0-9]{1,9}(?:\.[0-9]{1,9})?$') AS numeric)), 0), 5)), sum(l.total_tokens), lk_now()
    FROM agent_usage_logs l
   WHERE l.workspace_id = NEW.workspace_id AND l.task_id = NEW.id
  HAVING sum(l.total_tokens) > 0
  ON CONFLICT (workspace_id, task_id) DO UPDATE SET
    task_type = EXCLUDED.task_type, complexity = EXCLUDED.complexity, used = EXCLUDED.used, finished_at = EXCLUDED.finished_at;
  RETURN NULL;
END $$;
-- +goose StatementEnd
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
REVOKE ALL ON FUNCTION lk_event_of_task(), lk_settle_attempt(), lk_note_usage(), lk_event_sent() FROM PUBLIC;
CREATE TRIGGER event_added AFTER INSERT ON agent_tasks FOR EACH ROW EXECUTE FUNCTION lk_event_of_task();
CREATE TRIGGER event_changed AFTER UPDATE OF status, cancelled ON agent_tasks FOR EACH ROW
  WHEN (OLD.status <> NEW.status OR OLD.cancelled <> NEW.cancelled) EXECUTE FUNCTION lk_event_of_task();
CREATE TRIGGER budget_settled AFTER UPDATE OF ended_at ON agent_task_attempts FOR EACH ROW
  WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION lk_settle_attempt();
CREATE TRIGGER usage_noted AFTER UPDATE OF status ON agent_tasks FOR EACH ROW
  WHEN (NEW.status = 'COMPLETED' AND OLD.status <> 'COMPLETED') EXECUTE FUNCTION lk_note_usage();
CREATE TRIGGER event_sent AFTER INSERT ON events FOR EACH ROW
  WHEN (NEW.kind IN ('task.status_changed', 'task.dependency_cycle', 'agent.stale', 'budget.warning', 'budget.exhausted', 'approval.requested',
    'lane.wait_warning', 'queue.waiting', 'execution.completed', 'execution.failed', 'execution.cancelled', 'execution.stalled'))
  EXECUTE FUNCTION lk_event_sent();
