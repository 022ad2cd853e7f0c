-- A key may do no more than the person who has made it may do now. Here the query that
-- looks keys up says so: there are no roles to keep apart, and so no function for it.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
