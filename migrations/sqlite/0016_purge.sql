-- What is old goes by plain deletions here: there are no roles to keep apart, and so
-- no functions to delete through.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
