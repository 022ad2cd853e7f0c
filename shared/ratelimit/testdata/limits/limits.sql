-- name: CountBuckets
SELECT count(*) FROM rate_limits WHERE workspace_id = $1;
