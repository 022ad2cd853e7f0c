-- What is old goes by plain deletions here: there are no roles to keep apart. The
-- index is for finding it.

-- +goose Up
CREATE INDEX events_oldest ON events (workspace_id, created_at);

-- +goose Down
DROP INDEX events_oldest;
