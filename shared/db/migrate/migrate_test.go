package migrate_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

// A target is a fresh database, with a way to migrate it from any number of processes.
type target struct {
	name    string
	migrate func(ctx context.Context) (migrate.Result, error)
	// versions returns the applied versions, each as often as it was applied.
	versions func(t testing.TB) []int64
}

func targets(t testing.TB) []target {
	t.Helper()
	url, path := dbtest.NewDatabase(t), filepath.Join(t.TempDir(), "x.db")
	return []target{
		{"postgres",
			func(ctx context.Context) (migrate.Result, error) { return migrate.Postgres(ctx, url, quiet) },
			func(t testing.TB) (applied []int64) {
				conn, err := pgx.Connect(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.Background())
				rows, err := conn.Query(t.Context(), "SELECT version_id FROM lk_schema_version WHERE version_id > 0 ORDER BY 1")
				if err == nil {
					applied, err = pgx.CollectRows(rows, pgx.RowTo[int64])
				}
				if err != nil {
					t.Fatal(err)
				}
				return applied
			}},
		{"sqlite",
			func(ctx context.Context) (migrate.Result, error) { return migrateFile(ctx, path) },
			func(t testing.TB) (applied []int64) {
				write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
				if err != nil {
					t.Fatal(err)
				}
				defer write.Close()
				defer read.Close()
				rows, err := read.QueryContext(t.Context(), "SELECT version_id FROM lk_schema_version WHERE version_id > 0 ORDER BY 1")
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				for rows.Next() {
					var v int64
					if err := rows.Scan(&v); err != nil {
						t.Fatal(err)
					}
					applied = append(applied, v)
				}
				if err := rows.Err(); err != nil {
					t.Fatal(err)
				}
				return applied
			}},
	}
}

func migrateFile(ctx context.Context, path string) (migrate.Result, error) {
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
	if err != nil {
		return migrate.Result{}, err
	}
	res, err := migrate.SQLite(ctx, write, quiet)
	return res, errors.Join(err, read.Close(), write.Close())
}

func numbers() (all []int64) {
	for n := range migrations.Latest() {
		all = append(all, n+1)
	}
	return all
}

func TestResult(t *testing.T) {
	for _, target := range targets(t) {
		t.Run(target.name, func(t *testing.T) {
			latest := migrations.Latest()
			first, err := target.migrate(t.Context())
			if err != nil || first.From != 0 || first.To != latest || len(first.Applied) != int(latest) || !strings.HasPrefix(first.Applied[0], "0001_") {
				t.Errorf("first: %+v, %v", first, err)
			}
			again, err := target.migrate(t.Context())
			if want := (migrate.Result{From: latest, To: latest, Applied: []string{}}); err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("again: %+v, %v; want %+v", again, err, want)
			}
		})
	}
}

// TestAFileGetsItsStatisticsLater: a run that is killed after its last migration leaves none, or those of an earlier
// schema. The next run writes them, and one that finds them writes nothing.
func TestAFileGetsItsStatisticsLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if _, err := migrateFile(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	defer read.Close()
	statistics := func() (all string) {
		t.Helper()
		err := write.QueryRowContext(t.Context(),
			"SELECT group_concat(tbl || ' ' || idx || ' ' || stat, char(10) ORDER BY tbl, idx) FROM sqlite_stat1").Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	again := func() {
		t.Helper()
		if res, err := migrateFile(t.Context(), path); err != nil || len(res.Applied) != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	whole := statistics()
	for _, lost := range []string{
		"DROP TABLE sqlite_stat1",
		"DELETE FROM sqlite_stat1 WHERE tbl = 'agent_tasks'",
		"UPDATE sqlite_stat1 SET stat = '7 7' WHERE tbl = 'agent_tasks'",
	} {
		if _, err := write.ExecContext(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		again()
		if got := statistics(); got != whole {
			t.Errorf("after %q there are %d bytes of statistics, want %d", lost, len(got), len(whole))
		}
	}
	tx, err := write.BeginTx(t.Context(), nil) // nobody else can write
	if err != nil {
		t.Fatal(err)
	}
	again()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// TestEightAtOnce: eight processes migrate a fresh database concurrently. All succeed, and every
// migration is applied once.
func TestEightAtOnce(t *testing.T) {
	for _, target := range targets(t) {
		t.Run(target.name, func(t *testing.T) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			var applied int
			for range 8 {
				wg.Go(func() {
					res, err := target.migrate(t.Context())
					if err != nil || res.To != migrations.Latest() || res.From != res.To-int64(len(res.Applied)) {
						t.Errorf("%+v, %v", res, err)
					}
					mu.Lock()
					defer mu.Unlock()
					applied += len(res.Applied)
				})
			}
			wg.Wait()
			if got := target.versions(t); !reflect.DeepEqual(got, numbers()) || applied != len(got) {
				t.Errorf("applied %v, %d in all; want each of %v once", got, applied, numbers())
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	const secret = "kept-to-ourselves"
	_, err = migrate.Postgres(t.Context(), "postgres://u:"+secret+"@"+address+"/db", quiet)
	if !errors.Is(err, db.ErrUnavailable) || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v", err)
	}
	_, err = migrate.Postgres(t.Context(), "postgres://u:"+secret+"@db.example.com:port/db", quiet)
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a URL that is none: %v", err)
	}
}
