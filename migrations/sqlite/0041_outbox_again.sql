-- A row of the outbox that is claimed can be wanted again: given back, it is due at once.
-- oldest: 37

-- +goose Up
ALTER TABLE outbox ADD COLUMN due_again INTEGER NOT NULL DEFAULT 0 CHECK (due_again IN (0, 1)); -- a claim answers it

-- +goose Down
ALTER TABLE outbox DROP COLUMN due_again;
