-- Usage that is old goes by a plain deletion here, as other append-only tables do.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
