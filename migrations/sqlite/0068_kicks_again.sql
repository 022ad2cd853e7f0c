-- A kick that is wanted again while its handler works stays due when the handler ends it. Here the
-- statement of package outbox does that.
-- oldest: 46

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
