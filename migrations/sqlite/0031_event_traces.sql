-- Every event bears a trace: one that has none of its own that of the transaction which
-- made it. The application names it when it enters.

-- +goose Up
-- +goose StatementBegin
CREATE TRIGGER events_traced AFTER INSERT ON events WHEN NEW.trace_id IS NULL BEGIN
  UPDATE events SET trace_id = nullif(lk_trace(), '') WHERE id = NEW.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER events_traced;
