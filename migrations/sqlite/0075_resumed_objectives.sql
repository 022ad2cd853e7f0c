-- An objective keeps the version of the plan at which a person last resumed it or planned it. Only
-- the plans since then count against the limit that pauses an objective.
-- oldest: 46

-- +goose Up
ALTER TABLE agent_objectives ADD COLUMN resumed_plan_version INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE agent_objectives DROP COLUMN resumed_plan_version;
