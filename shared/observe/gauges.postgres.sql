-- why: without a workspace the rows of all are read, which a function of their owner may do.
-- name: Read
-- global: of the workspace that the transaction has entered, else of all; $1 is that workspace
-- An agent in ERROR is stale, also where one event told of many and none has the health stale.
SELECT name, label,
       CASE name WHEN 'coordinator.stale_agents.count' THEN max(CASE WHEN name = 'agents.count' AND label = 'ERROR' THEN value END) OVER ()
            ELSE value END
  FROM lk_gauges()
 WHERE CAST($1 AS text) IS NOT NULL;
