-- why: on Postgres a function acquires a lane.

-- name: Acquire
SELECT acquired FROM lk_lane_acquire($1, 'x', gen_random_uuid(), 'them', 60000, NULL, NULL);
