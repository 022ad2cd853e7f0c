-- Whether the results of a skill are trusted like the operator's own text.
-- oldest: 46

-- +goose Up
ALTER TABLE agent_skills ADD COLUMN results TEXT CHECK (results IN ('trusted', 'untrusted')); -- null: untrusted

-- +goose Down
ALTER TABLE agent_skills DROP COLUMN results;
