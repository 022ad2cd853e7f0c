-- An objective keeps the version of the plan at which a person last resumed it or planned it. Only
-- the plans since then count against the limit that pauses an objective.
-- oldest: 46

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE agent_objectives ADD COLUMN resumed_plan_version integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE agent_objectives DROP COLUMN resumed_plan_version;
