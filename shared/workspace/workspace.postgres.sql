-- why: row-level security shows one workspace; only a function of the owner's looks into all.

-- name: Unserved
-- global: the schedule's tick serves every workspace
SELECT * FROM lk_workspaces_unserved($1, $2, $3, $4, $5);

-- name: Due
-- global: whoever tends looks into every workspace
SELECT * FROM lk_workspaces_due($1);
