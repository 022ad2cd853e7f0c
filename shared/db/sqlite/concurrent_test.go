package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// TestNoUpdateIsLost: handles on one file, in one process and in several, lose no update, whichever
// of them opens and closes meanwhile.
func TestNoUpdateIsLost(t *testing.T) {
	const handles, processes, each = 3, 3, 20
	w := newWorld(t)
	id := w.add(t)
	var wg sync.WaitGroup
	for range handles {
		d, _ := w.Open(t, 0)
		wg.Go(func() {
			for range each {
				if err := w.q.increment(t.Context(), d, w.Workspace, id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range processes {
		wg.Go(func() { w.helper(t, id, each) })
	}
	wg.Go(func() {
		for range each {
			d, err := sqlite.Open(t.Context(), sqlite.Config{Path: w.URL})
			if err == nil {
				err = errors.Join(w.q.increment(t.Context(), d, w.Workspace, id), d.Close())
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	w.counts(t, w.DB, id, (handles+processes+1)*each)
}

// TestAFreshFileOpenedAtOnce: several handles concurrently open a file that is not set up yet.
func TestAFreshFileOpenedAtOnce(t *testing.T) {
	folder := t.TempDir()
	for round := range 200 {
		path := filepath.Join(folder, strconv.Itoa(round))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				d, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
				if err == nil {
					err = d.Close()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// TestAFreshFileThatIsHeld: a handle that opens a file waits for another one that sets it up, until
// its context ends.
func TestAFreshFileThatIsHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE; CREATE TABLE lk_schema_version (version_id)"); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := sqlite.Open(soon, sqlite.Config{Path: path}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is held: %v", err)
	}
	if _, err := other.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	open(t, sqlite.Config{Path: path})
}

// TestOpeningAgainKeepsTheLocks: opening a file once more keeps the locks that it has. Otherwise
// another process that closes the file would believe it is the last one, and remove the write-ahead
// log.
func TestOpeningAgainKeepsTheLocks(t *testing.T) {
	w := newWorld(t)
	id := w.add(t)
	if err := open(t, sqlite.Config{Path: w.URL}).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.helper(t, id, 1)
	if _, err := os.Stat(w.URL + "-wal"); err != nil {
		t.Errorf("the write-ahead log in use is gone: %v", err)
	}
	if err := w.q.increment(t.Context(), w.DB, w.Workspace, id); err != nil {
		t.Fatal(err)
	}
	w.helper(t, id, 1)
	w.counts(t, w.DB, id, 3)
}

// Environment variables of a test binary that runs as another process on the file.
const (
	helperFile      = "LK_SQLITE_FILE"
	helperWorkspace = "LK_SQLITE_WORKSPACE"
	helperCounter   = "LK_SQLITE_COUNTER"
	helperTimes     = "LK_SQLITE_TIMES"
)

// helper increments the counter in another process, and waits for its end.
func (w world) helper(t testing.TB, id string, times int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperFile+"="+w.URL, helperWorkspace+"="+string(w.Workspace),
		helperCounter+"="+id, helperTimes+"="+strings.Repeat("x", times))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("another process: %v\n%s", err, out)
	}
}

// help is what the other process does.
func help(path string) error {
	var q queries
	if err := load(&q); err != nil {
		return err
	}
	d, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	if err != nil {
		return err
	}
	for range os.Getenv(helperTimes) {
		err = errors.Join(err, q.increment(context.Background(), d, db.Workspace(os.Getenv(helperWorkspace)), os.Getenv(helperCounter)))
	}
	return errors.Join(err, d.Close())
}

// TestReadersRunBesideTheWriter: readers neither wait for the writer nor see uncommitted changes. A
// batch of reads sees one state.
func TestReadersRunBesideTheWriter(t *testing.T) {
	w := newWorld(t)
	id := w.add(t)
	other, _ := w.Open(t, 0)
	soon, cancel := context.WithTimeout(t.Context(), time.Minute) // a reader that waits for the writer fails after 5 s
	defer cancel()
	err := w.DB.Tx(soon, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, w.q.Set, id, 1); err != nil {
			return err
		}
		var wg sync.WaitGroup
		for i := range 20 { // more than there are connections
			wg.Go(func() {
				d := []*db.DB{w.DB, other}[i%2]
				var n int
				if err := d.One(soon, w.Workspace, []any{&n}, w.q.Count, id); err != nil || n != 0 {
					t.Errorf("beside the writer: %d, %v", n, err)
				}
			})
		}
		wg.Wait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.counts(t, w.DB, id, 1)

	var b db.Batch
	var before, after int
	b.Each(func(scan db.Scan) error {
		w.add(t)
		return scan(&before)
	}, w.q.Rows)
	b.One([]any{&after}, w.q.Rows)
	if err := w.DB.Read(t.Context(), w.Workspace, &b); err != nil || before != 1 || after != 1 {
		t.Errorf("a batch of reads counted %d, then %d, %v", before, after, err)
	}
}

func TestReadsCannotWrite(t *testing.T) {
	w := newWorld(t)
	id := w.add(t)
	var b db.Batch
	b.Exec(w.q.Set, id, 1)
	if err := w.DB.Read(t.Context(), w.Workspace, &b); err == nil {
		t.Error("a read has written")
	}
	w.counts(t, w.DB, id, 0)
}

// TestInterrupted: an interrupted statement rolls its transaction back, reports the reason, and
// leaves the connections usable.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	id := w.add(t)
	for name, use := range map[string]func(context.Context) error{
		"a write": func(ctx context.Context) error {
			var b db.Batch
			b.Exec(w.q.Set, id, 1)
			b.Exec(w.q.AddMany, id)
			return w.DB.Do(ctx, w.Workspace, &b)
		},
		"a write in a transaction": func(ctx context.Context) error {
			return w.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, w.q.Set, id, 1); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, w.q.AddMany, id)
				return err
			})
		},
		"a read": func(ctx context.Context) error {
			return w.DB.One(ctx, w.Workspace, []any{new(int)}, w.q.Slow)
		},
		"a read in a transaction": func(ctx context.Context) error {
			return w.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, w.q.Set, id, 1); err != nil {
					return err
				}
				return tx.One(ctx, []any{new(int)}, w.q.Slow)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				soon, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
				err := use(soon)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, db.ErrUncertain) || strings.Contains(err.Error(), "roll back") ||
					strings.Contains(err.Error(), "no transaction") {
					t.Errorf("got %v", err)
				}
				w.counts(t, w.DB, id, 0)
			}
			if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Set, id, 0); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
