-- why: on Postgres a lane is taken by a function.

-- name: Acquire
SELECT acquired FROM lk_lane_acquire($1, 'x', gen_random_uuid(), 'them', 60000, NULL, NULL);
