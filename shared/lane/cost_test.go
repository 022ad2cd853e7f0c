package lane_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

func TestStatementsAndRoundTrips(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ctx := t.Context()
		refusal := db.Stats{Statements: 1, RoundTrips: 1}
		if w.DB.Dialect() == db.SQLite {
			// A refusal returns no row: a second statement reads who holds the lane.
			refusal = db.Stats{Statements: 2, RoundTrips: 2}
		}
		var h *lane.Hold
		var holds lane.Holds
		for _, step := range []struct {
			what string
			want db.Stats
			do   func() error
		}{
			{"acquire of a new lane", db.Stats{Statements: 1, RoundTrips: 1}, func() (err error) {
				h, err = w.s.Acquire(ctx, w.request("x"))
				return err
			}},
			{"refusal", refusal, func() error {
				refused(t, w.s, w.request("x"))
				return nil
			}},
			{"renewal", db.Stats{Statements: 1, RoundTrips: 1}, func() error { return w.s.Renew(ctx, h, time.Minute) }},
			{"proof of nothing", db.Stats{Statements: 1, RoundTrips: 1}, func() error { return w.s.InHold(ctx, h, nothing) }},
			{"proof and one write", db.Stats{Statements: 2, RoundTrips: 1}, func() error {
				return w.s.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error {
					w.put(tx, h, "x")
					return nil
				})
			}},
			{"proof, read and write", db.Stats{Statements: 3, RoundTrips: 2}, func() error {
				return w.s.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error {
					err := tx.Each(ctx, ignore, w.q.Get, register)
					w.put(tx, h, "x")
					return err
				})
			}},
			{"release", db.Stats{Statements: 1, RoundTrips: 1}, func() error { return w.s.Release(ctx, h) }},
			{"acquire of a known lane", db.Stats{Statements: 1, RoundTrips: 1}, func() (err error) {
				h, err = w.s.Acquire(ctx, w.request("x"))
				return err
			}},
			{"last write and release", db.Stats{Statements: 3, RoundTrips: 1}, func() error {
				return w.s.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error {
					w.put(tx, h, "x")
					tx.Release(w.s, h)
					return nil
				})
			}},
			{"three lanes", db.Stats{Statements: 3, RoundTrips: 4}, func() (err error) {
				holds, err = w.s.AcquireAll(ctx, w.requests("a", "b", "c")...)
				return err
			}},
			{"three proofs and a write", db.Stats{Statements: 2, RoundTrips: 1}, func() error {
				return w.s.InHold(ctx, holds, func(_ context.Context, tx lane.Tx) error {
					w.put(tx, holds[0], "x")
					return nil
				})
			}},
			{"do", db.Stats{Statements: 2, RoundTrips: 2}, func() error {
				return w.s.Do(ctx, w.request("d"), lane.Wait{}, func(context.Context, *lane.Hold) error { return nil })
			}},
		} {
			before := w.DB.Stats()
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
			if got := w.DB.Stats().Sub(before); got != step.want {
				t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
			}
		}
	})
}

// quiet returns a world on its own Postgres server, which does no background work, with a single
// connection. It also returns a superuser's connection to observe the server.
func quiet(t *testing.T) (world, *pgx.Conn) {
	t.Helper()
	ctx := t.Context()
	server, err := servers.StartPostgres(ctx, "", servers.PostgresOptions{
		Quiet: true, Settings: map[string]string{"wal_writer_delay": "10s", "bgwriter_delay": "10s"},
	})
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) && !dbtest.InCI() {
		t.Skipf("NOT RUN: %v", err)
	}
	check(t, err)
	t.Cleanup(func() { check(t, server.Close()) })
	_, err = migrate.Postgres(ctx, server.URL, slog.New(slog.DiscardHandler))
	check(t, err)
	d, err := postgres.Open(postgres.Config{URL: server.URL, MaxConns: 1, Schema: migrations.Latest()})
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	c, err := pgx.Connect(ctx, server.URL)
	check(t, err)
	t.Cleanup(func() { check(t, c.Close(context.Background())) })
	return newWorld(t, dbtest.Env{Engine: dbtest.OnPostgres, DB: d, Workspace: dbtest.NewWorkspace(t, d), URL: server.URL}), c
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lsn returns the position of the write-ahead log, in bytes.
func lsn(t *testing.T, c *pgx.Conn) (bytes int64) {
	t.Helper()
	check(t, c.QueryRow(t.Context(), "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&bytes))
	return bytes
}

// flushes returns how often the write-ahead log was flushed.
func flushes(t *testing.T, w world, c *pgx.Conn) (n int64) {
	t.Helper()
	var q struct{ Flush db.Query }
	dbtest.Load(t, "testdata/stats", &q)
	var b db.Batch
	b.Each(ignore, q.Flush)
	check(t, w.DB.Do(t.Context(), "", &b))
	var version int
	check(t, c.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&version))
	query := "SELECT wal_sync FROM pg_stat_wal"
	if version >= 180000 {
		query = "SELECT sum(fsyncs)::bigint FROM pg_stat_io WHERE object = 'wal'"
	}
	check(t, c.QueryRow(t.Context(), query).Scan(&n))
	return n
}

func TestOnAQuietPostgres(t *testing.T) {
	w, c := quiet(t)
	t.Run("an acquire and a release write little log and flush it twice", func(t *testing.T) { littleLog(t, w, c) })
	t.Run("a refusal neither writes nor locks", func(t *testing.T) { onlyReads(t, w, c) })
}

func littleLog(t *testing.T, w world, c *pgx.Conn) {
	pairs := func(n int) {
		t.Helper()
		for range n {
			w.release(t, acquire(t, w.s, w.request("heartbeat")))
		}
	}
	pairs(200)
	_, err := c.Exec(t.Context(), "CHECKPOINT")
	check(t, err)
	pairs(200) // the first changes after a checkpoint log whole pages

	const n = 200
	bytes, flushed := lsn(t, c), flushes(t, w, c)
	pairs(n)
	bytes, flushed = lsn(t, c)-bytes, flushes(t, w, c)-flushed
	t.Logf("%d bytes of log and %.2f flushes for an acquire and a release", bytes/n, float64(flushed)/n)
	if bytes/n > 400 {
		t.Errorf("%d bytes", bytes/n)
	}
	if flushed < 2*n || flushed > 2*n+n/20 { // the server flushes now and then
		t.Errorf("%d flushes for %d pairs", flushed, n)
	}

	acquire(t, w.s, w.request("heartbeat"))
	bytes, flushed = lsn(t, c), flushes(t, w, c)
	for range n {
		refused(t, w.s, w.request("heartbeat"))
	}
	bytes, flushed = lsn(t, c)-bytes, flushes(t, w, c)-flushed
	if bytes != 0 || flushed > n/20 {
		t.Errorf("%d refusals wrote %d bytes of log and flushed it %d times", n, bytes, flushed)
	}
}

func onlyReads(t *testing.T, w world, c *pgx.Conn) {
	ctx := t.Context()
	explain := "EXPLAIN (ANALYZE, WAL, FORMAT JSON) " + dbtest.Statement(t, "lane.Acquire").Text(db.Postgres)

	// ask acquires in a transaction that begins like the application's. It returns what the acquire
	// wrote, whether it turned the transaction into a writing one, and what it locked.
	ask := func(name lane.Name) (records, bytes int64, writes bool, locks []string) {
		t.Helper()
		tx, err := c.Begin(ctx)
		check(t, err)
		defer func() { check(t, tx.Rollback(ctx)) }()
		_, err = tx.Exec(ctx, "SELECT lk_enter($1)", string(w.Workspace))
		check(t, err)
		var plan []byte
		check(t, tx.QueryRow(ctx, explain, string(w.Workspace), string(name), uuid.NewString(), "me", 60_000, nil, nil).Scan(&plan))
		var parsed []struct {
			Plan struct {
				Records *int64 `json:"WAL Records"`
				Bytes   *int64 `json:"WAL Bytes"`
			}
		}
		check(t, json.Unmarshal(plan, &parsed))
		if parsed[0].Plan.Records == nil || parsed[0].Plan.Bytes == nil {
			t.Fatalf("the plan says nothing about the log: %s", plan)
		}
		check(t, tx.QueryRow(ctx, "SELECT pg_current_xact_id_if_assigned() IS NOT NULL").Scan(&writes))
		rows, err := tx.Query(ctx, "SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'agent_locks'::regclass")
		check(t, err)
		locks, err = pgx.CollectRows(rows, pgx.RowTo[string])
		check(t, err)
		return *parsed[0].Plan.Records, *parsed[0].Plan.Bytes, writes, locks
	}

	acquire(t, w.s, w.request("busy"))
	if records, bytes, writes, locks := ask("busy"); records != 0 || bytes != 0 || writes || !slices.Equal(locks, []string{"AccessShareLock"}) {
		t.Errorf("a refusal wrote %d records of %d bytes, writes: %v, locks: %v", records, bytes, writes, locks)
	}
	if records, bytes, writes, _ := ask("free"); records == 0 || bytes == 0 || !writes {
		t.Errorf("an acquire, for comparison, wrote %d records of %d bytes, writes: %v", records, bytes, writes)
	}
}
