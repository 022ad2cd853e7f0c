-- A cycle notes how fast each budget lets work begin, so that a claim does not sum up the usage of a day.
-- oldest: 46

-- +goose Up
ALTER TABLE usage_budgets ADD COLUMN pace TEXT CHECK (pace IN ('THROTTLE', 'STOP')); -- null: CONTINUE
ALTER TABLE coordinator_cycles ADD COLUMN paced_at INTEGER; -- when a cycle last did so

-- +goose Down
ALTER TABLE coordinator_cycles DROP COLUMN paced_at;
ALTER TABLE usage_budgets DROP COLUMN pace;
