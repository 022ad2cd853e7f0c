-- The names of keys that the program makes begin with a colon, which no name of a user's
-- secret can: "lanekeeper." is a user's like any other again.
-- oldest: 40

-- +goose Up
SET LOCAL lock_timeout = '10s';
ALTER TABLE secrets DROP CONSTRAINT secrets_name_check;
ALTER TABLE secrets ADD CONSTRAINT secrets_name_check CHECK (length(name) BETWEEN 1 AND 64
    AND ltrim(CASE WHEN substr(name, 1, 1) = ':' THEN substr(name, 2) ELSE name END,
      'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-') = '');
-- A key that was made under its old name is made anew: people sign in once more.
DELETE FROM secrets WHERE name LIKE 'lanekeeper.%-key' AND created_by = 'lanekeeper';

-- +goose Down
DELETE FROM secrets WHERE substr(name, 1, 1) = ':';
ALTER TABLE secrets DROP CONSTRAINT secrets_name_check;
ALTER TABLE secrets ADD CONSTRAINT secrets_name_check CHECK (length(name) BETWEEN 1 AND 64
    AND ltrim(name, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-') = '');
