-- why: the engines compute with times in their own ways.

-- name: Histogram
-- How many entries of each status there are in each bucket of $10 seconds since $7.
SELECT (created_at - $7) / (CAST($10 AS integer) * 1000000), count(CASE status WHEN 'success' THEN 1 END), count(CASE status WHEN 'error' THEN 1 END),
       count(CASE status WHEN 'pending_approval' THEN 1 END), count(CASE status WHEN 'skipped' THEN 1 END)
  FROM agent_activity
 WHERE @Matches
 GROUP BY 1
 ORDER BY 1;
