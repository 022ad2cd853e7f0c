package migrate

import (
	"context"
	"database/sql"
	"fmt"
)

// expected says how many rows SQLite's planner is to expect. Without statistics it expects ten rows of a
// workspace, and reads all. Each index has a row: how many rows there are, and how many are alike in its first
// column, in its first two, and so on.
const expected = `
SELECT t.name AS tbl, x.name AS idx, x.n || (
       SELECT group_concat(' ' || CASE
                WHEN x."unique" AND c.seqno = x.last THEN 1
                WHEN c.name = 'workspace_id' THEN x.n
                WHEN c.seqno = 0 THEN 1
                WHEN c.seqno = 1 THEN x.n / 200
                ELSE 5 END, '' ORDER BY c.seqno)
         FROM pragma_index_info(x.name) c) AS stat
  FROM sqlite_schema t,
       (SELECT l.name, l."unique", m.name AS of, CASE l.partial WHEN 1 THEN 10000 ELSE 100000 END AS n,
               (SELECT max(i.seqno) FROM pragma_index_info(l.name) i) AS last
          FROM sqlite_schema m, pragma_index_list(m.name) l
         WHERE m.type = 'table') x
 WHERE t.type = 'table' AND t.name = x.of AND t.name NOT LIKE 'sqlite%' AND t.name NOT LIKE 'lk%'`

const (
	hasStatistics = `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1')`
	missing       = `SELECT EXISTS (SELECT * FROM (` + expected + `) EXCEPT SELECT tbl, idx, stat FROM sqlite_stat1)`
	statistics    = `
ANALYZE workspaces; -- makes the table
DELETE FROM sqlite_stat1;
INSERT INTO sqlite_stat1 (tbl, idx, stat)` + expected + `;
ANALYZE sqlite_schema; -- reads them`
)

// expect gives a SQLite file the same statistics whatever is in it, so that its plans do not depend on its rows. It
// writes them only where one is missing: the run that has applied the last migration may have been killed since.
func expect(ctx context.Context, pool *sql.DB) error {
	if there, err := complete(ctx, pool); err != nil || there {
		return err
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("write the planner's statistics: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, statistics); err != nil {
		return fmt.Errorf("write the planner's statistics: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("write the planner's statistics: %w", err)
	}
	return nil
}

// complete reports whether a SQLite file has its statistics. It only reads.
func complete(ctx context.Context, pool *sql.DB) (bool, error) {
	var is bool
	err := pool.QueryRowContext(ctx, hasStatistics).Scan(&is)
	if err == nil && is {
		var lacks bool
		err = pool.QueryRowContext(ctx, missing).Scan(&lacks)
		is = !lacks
	}
	if err != nil {
		return false, fmt.Errorf("read the planner's statistics: %w", err)
	}
	return is, nil
}
