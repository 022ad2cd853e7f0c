-- Without a complexity in its metadata, a task that was completed counts with complexity 5, as its
-- estimate does. Here it does already.
-- oldest: 46

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
