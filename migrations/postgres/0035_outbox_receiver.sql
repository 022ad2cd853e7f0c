-- Whom a row of the outbox is for, so that a receiver that is slow does not hold up others.

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE outbox ADD COLUMN receiver text; -- null: the same for all of its topic

-- +goose Down
ALTER TABLE outbox DROP COLUMN receiver;
