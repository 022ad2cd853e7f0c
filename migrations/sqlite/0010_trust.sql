-- How far a run's conversation can be trusted at each of its steps: as the
-- operator's own words, or no further than text from outside.

-- +goose Up
ALTER TABLE execution_steps ADD COLUMN trust TEXT NOT NULL DEFAULT 'operator' CHECK (trust IN ('operator', 'outside'));

-- +goose Down
ALTER TABLE execution_steps DROP COLUMN trust;
