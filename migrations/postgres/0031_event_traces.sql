-- Every event bears a trace: one that has none of its own that of the transaction which
-- made it. The application names it when it enters.

-- +goose Up
SET LOCAL lock_timeout = '10s';
-- +goose StatementBegin
CREATE FUNCTION lk_trace_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.trace_id := nullif(current_setting('app.trace_id', true), '');
  RETURN NEW;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION lk_trace_event() FROM PUBLIC; -- triggers need no right to it
CREATE TRIGGER event_traced BEFORE INSERT ON events FOR EACH ROW
  WHEN (NEW.trace_id IS NULL) EXECUTE FUNCTION lk_trace_event();

-- +goose Down
DROP FUNCTION lk_trace_event() CASCADE;
