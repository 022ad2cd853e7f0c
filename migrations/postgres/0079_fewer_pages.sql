-- The alerts of budgets, the restored heals of a skill and the commands that were just carried out are found
-- without a look at the others. The events of memories are written once for a statement, not once for a row.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
CREATE INDEX usage_budgets_warned ON usage_budgets (workspace_id, period_end) WHERE threshold > 0;
CREATE INDEX heals_restored ON heals (workspace_id, skill, updated_at DESC) WHERE status = 'restored';
CREATE INDEX coordinator_commands_done ON coordinator_commands (workspace_id, done_at, id) WHERE done_at IS NOT NULL;

-- A workspace that is being deleted has no such events.
-- +goose StatementBegin
CREATE FUNCTION lk_memories_saved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  SELECT m.workspace_id, 'memory.saved', m.id, m.trace_id,
         jsonb_build_object('agent', m.agent, 'category', m.category, 'importance', m.importance), m.created_at
    FROM saved m;
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION lk_memories_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO events (workspace_id, kind, subject, data, created_at) -- who forgets is another trace
  SELECT m.workspace_id, 'memory.forgotten', m.id,
         jsonb_build_object('agent', m.agent, 'category', m.category, 'importance', m.importance), lk_now()
    FROM forgotten m
   WHERE m.workspace_id IN (SELECT w.id FROM workspaces w WHERE w.open);
  RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TRIGGER event_changed ON agent_memory;
DROP FUNCTION lk_event_of_memory();
CREATE TRIGGER event_added AFTER INSERT ON agent_memory REFERENCING NEW TABLE AS saved FOR EACH STATEMENT EXECUTE FUNCTION lk_memories_saved();
CREATE TRIGGER event_gone AFTER DELETE ON agent_memory REFERENCING OLD TABLE AS forgotten FOR EACH STATEMENT EXECUTE FUNCTION lk_memories_forgotten();
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_memories_saved() SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION lk_memories_forgotten() SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_memories_saved(), lk_memories_forgotten() FROM PUBLIC; -- triggers need no right to them
END $$;
-- +goose StatementEnd

-- +goose Down
SET LOCAL lock_timeout = '10s';
DROP TRIGGER event_gone ON agent_memory;
DROP TRIGGER event_added ON agent_memory;
DROP FUNCTION lk_memories_forgotten();
DROP FUNCTION lk_memories_saved();
-- +goose StatementBegin
CREATE FUNCTION lk_event_of_memory() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  m agent_memory := CASE WHEN TG_OP = 'INSERT' THEN NEW ELSE OLD END;
BEGIN
  INSERT INTO events (workspace_id, kind, subject, trace_id, data, created_at)
  SELECT m.workspace_id, CASE WHEN TG_OP = 'INSERT' THEN 'memory.saved' ELSE 'memory.forgotten' END, m.id,
         CASE WHEN TG_OP = 'INSERT' THEN m.trace_id END,
         jsonb_build_object('agent', m.agent, 'category', m.category, 'importance', m.importance),
         CASE WHEN TG_OP = 'INSERT' THEN m.created_at ELSE lk_now() END
   WHERE EXISTS (SELECT FROM workspaces w WHERE w.id = m.workspace_id);
  RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION lk_event_of_memory() SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION lk_event_of_memory() FROM PUBLIC;
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_changed AFTER INSERT OR DELETE ON agent_memory FOR EACH ROW EXECUTE FUNCTION lk_event_of_memory();
DROP INDEX coordinator_commands_done;
DROP INDEX heals_restored;
DROP INDEX usage_budgets_warned;
