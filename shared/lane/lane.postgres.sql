-- why: on Postgres the deciding statements are functions, shared with clients in other languages.

-- name: Acquire
SELECT a.acquired, (a.held).lane, (a.held).locked_by, (a.held).fence, (a.held).ttl_ms, (a.held).locked_at, (a.held).expires_at,
       (a.held).wanted_at, (a.held).wanted_by, (a.held).execution_id, (a.held).trace_id, lk_now()
  FROM lk_lane_acquire($1, $2, $3, $4, $5, $6, $7) a;

-- name: Renew
SELECT r.fence, r.expires_at, r.wanted_by FROM lk_lane_renew($1, $2, $3, $4) r;

-- name: Release
SELECT 'released' FROM lk_lane_release($1, $2, $3);
