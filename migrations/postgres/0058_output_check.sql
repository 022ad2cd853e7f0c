-- The skill that sees an agent's answers before anybody is told of them.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE personas ADD COLUMN output_check text CHECK (length(output_check) BETWEEN 1 AND 64);

-- +goose Down
ALTER TABLE personas DROP COLUMN output_check;
