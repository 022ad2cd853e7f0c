package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// bare are the statements to which lanes are compared: updates of an ordinary durable row on the
// same database, through the same package db.
var bare = fstest.MapFS{"bare.sql": &fstest.MapFile{Data: []byte(`
-- name: Make
-- global: a table of the benchmark's own
INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET name = excluded.name;

-- name: Update
-- global: one durable one-row update
UPDATE workspaces SET updated_at = lk_now() WHERE id = $1;

-- name: One
-- global: the least a round trip can carry
SELECT 1;
`)}}

type bareQueries struct{ Make, Update, One db.Query }

// rowID is the id of the row that the bare updates change.
const rowID = "00000000-0000-7000-8000-0000000000ff"

// database starts a durable Postgres for the benchmark and creates the schema in it. stop ends it.
func database(ctx context.Context) (d *db.DB, url string, stop func(), err error) {
	srv, err := servers.StartPostgres(ctx, "", servers.PostgresOptions{Quiet: true})
	if err != nil {
		return nil, "", nil, err
	}
	if _, err = migrate.Postgres(ctx, srv.URL, slog.New(slog.DiscardHandler)); err == nil {
		d, err = postgres.Open(postgres.Config{URL: srv.URL, Schema: migrations.Latest()})
	}
	if err != nil {
		return nil, "", nil, errors.Join(err, srv.Close())
	}
	return d, srv.URL, func() { _ = errors.Join(d.Close(), srv.Close()) }, ready(ctx, d)
}

func ready(ctx context.Context, d *db.DB) error {
	var q bareQueries
	w, err := workspace.New(d)
	if err := errors.Join(err, db.Load(bare, &q)); err != nil {
		return err
	}
	_, err = d.Exec(ctx, "", q.Make, rowID, "bench", "Bench")
	return errors.Join(err, w.EnsureDefault(ctx))
}

func lanesOnPostgres(ctx context.Context, rounds int) ([]Row, error) {
	d, url, stop, err := database(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	rows, err := pairs(ctx, d, rounds, "Postgres", 1.15)
	if err != nil {
		return nil, err
	}
	refusals, err := refused(ctx, d, rounds)
	if err != nil {
		return nil, err
	}
	wal, err := walOfPairs(ctx, d, url)
	return append(append(rows, refusals...), wal...), err
}

func lanesOnSQLite(ctx context.Context, rounds int) ([]Row, error) {
	dir, err := os.MkdirTemp("", "lanekeeper-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "bench.db")
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
	if err != nil {
		return nil, err
	}
	_, err = migrate.SQLite(ctx, write, slog.New(slog.DiscardHandler))
	if err := errors.Join(err, read.Close(), write.Close()); err != nil {
		return nil, err
	}
	d, err := sqlite.Open(ctx, sqlite.Config{Path: path, Schema: migrations.Latest()})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := ready(ctx, d); err != nil {
		return nil, err
	}
	return pairs(ctx, d, rounds, "SQLite", 1.3)
}

// pairs compares acquire and release with two bare durable updates, and a write that proves its
// hold with a plain one.
func pairs(ctx context.Context, d *db.DB, rounds int, engine string, limit float64) ([]Row, error) {
	lanes, err := lane.New(d)
	if err != nil {
		return nil, err
	}
	var q bareQueries
	if err := db.Load(bare, &q); err != nil {
		return nil, err
	}
	update := func() error { _, err := d.Exec(ctx, "", q.Update, rowID); return err }
	request := lane.Request{Workspace: workspace.Default, Lane: "bench", Holder: "bench"}
	pair := func() error {
		h, err := lanes.Acquire(ctx, request)
		if err != nil {
			return err
		}
		return lanes.Release(ctx, h)
	}
	before := d.Stats()
	if err := pair(); err != nil {
		return nil, err
	}
	trips := d.Stats().Sub(before).RoundTrips
	r, a, b, err := ratio(rounds, pair, func() error { return errors.Join(update(), update()) })
	if err != nil {
		return nil, err
	}
	rows := []Row{
		{Name: engine + ": acquire + release, round trips", Value: float64(trips), Limit: 2},
		{
			Name: engine + ": acquire + release over two durable updates", Value: r, Limit: limit,
			Detail: fmt.Sprintf("medians %.0f µs and %.0f µs", a, b),
		},
		{Name: engine + ": acquire + release, allocations", Value: allocations(pair), Detail: "goal 25"},
	}
	hold, err := lanes.Acquire(ctx, request)
	if err != nil {
		return nil, err
	}
	proven := func() error {
		return lanes.InHold(ctx, hold, func(_ context.Context, tx lane.Tx) error {
			tx.Later().Exec(q.Update, rowID)
			return nil
		})
	}
	r, a, b, err = ratio(rounds, proven, update)
	rows = append(rows, Row{
		Name: engine + ": proven write over plain write", Value: r, Limit: 1.15,
		Detail: fmt.Sprintf("medians %.0f µs and %.0f µs", a, b),
	})
	return rows, errors.Join(err, lanes.Release(ctx, hold))
}

// refused compares a refused acquire with SELECT 1, alone and a thousand at a time.
func refused(ctx context.Context, d *db.DB, rounds int) ([]Row, error) {
	lanes, err := lane.New(d)
	if err != nil {
		return nil, err
	}
	var q bareQueries
	if err := db.Load(bare, &q); err != nil {
		return nil, err
	}
	request := lane.Request{Workspace: workspace.Default, Lane: "taken", Holder: "bench"}
	if _, err := lanes.Acquire(ctx, request); err != nil {
		return nil, err
	}
	refusal := func() error {
		_, err := lanes.Acquire(ctx, request)
		if _, busy := errors.AsType[*lane.BusyError](err); busy {
			return nil
		}
		return errors.Join(err, errors.New("the lane was given away"))
	}
	one := func() error {
		var n int
		return d.One(ctx, "", []any{&n}, q.One)
	}
	r, a, b, err := ratio(rounds, refusal, one)
	if err != nil {
		return nil, err
	}
	rows := []Row{{
		Name: "Postgres: refusal over SELECT 1", Value: r, Limit: 1.3,
		Detail: fmt.Sprintf("medians %.0f µs and %.0f µs, both with lk_enter", a, b),
	}}
	var winners atomic.Int64
	var turn atomic.Int64
	thousand := func() error {
		name := lane.Name(fmt.Sprintf("rush:%d", turn.Add(1)))
		winners.Store(0)
		err := atOnce(func() error {
			_, err := lanes.Acquire(ctx, lane.Request{Workspace: workspace.Default, Lane: name, Holder: "bench"})
			if err == nil {
				winners.Add(1)
				return nil
			}
			if _, busy := errors.AsType[*lane.BusyError](err); busy {
				return nil
			}
			return err
		})
		if err == nil && winners.Load() != 1 {
			err = fmt.Errorf("%d winners", winners.Load())
		}
		return err
	}
	r, a, b, err = ratio(5, thousand, func() error { return atOnce(one) })
	return append(rows, Row{
		Name: "Postgres: 1,000 attempts at once over 1,000 SELECT 1", Value: r, Limit: 3,
		Detail: fmt.Sprintf("medians %.0f ms and %.0f ms, one winner each time", a/1000, b/1000),
	}), err
}

func atOnce(f func() error) error {
	errs := make([]error, 1000)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// walOfPairs measures the write-ahead log of acquire and release.
func walOfPairs(ctx context.Context, d *db.DB, url string) ([]Row, error) {
	lanes, err := lane.New(d)
	if err != nil {
		return nil, err
	}
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	const n = 200
	pairs := func() error {
		for range n {
			h, err := lanes.Acquire(ctx, lane.Request{Workspace: workspace.Default, Lane: "wal", Holder: "bench"})
			if err != nil {
				return err
			}
			if err := lanes.Release(ctx, h); err != nil {
				return err
			}
		}
		return nil
	}
	if err := pairs(); err != nil { // after a checkpoint, the first change of a page logs the whole page
		return nil, err
	}
	position := func() (lsn float64, xid float64, err error) {
		err = c.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8, pg_snapshot_xmax(pg_current_snapshot())::text::float8").Scan(&lsn, &xid)
		return lsn, xid, err
	}
	lsn, xid, err := position()
	if err != nil {
		return nil, err
	}
	if err := pairs(); err != nil {
		return nil, err
	}
	lsn2, xid2, err := position()
	return []Row{
		{Name: "Postgres: acquire + release, log bytes", Value: (lsn2 - lsn) / n, Limit: 400},
		{Name: "Postgres: acquire + release, log flushes", Value: (xid2 - xid) / n, Limit: 2, Detail: "transactions that wrote"},
	}, err
}

// allocations returns the mean number of heap allocations of f.
func allocations(f func() error) float64 {
	const n = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		if f() != nil {
			return 0
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n
}
