package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// TestAFileThatIsNotOurs: a file that is not a database of Lanekeeper is refused and not changed.
func TestAFileThatIsNotOurs(t *testing.T) {
	own, _, _ := crashed(t)
	theirs := othersDatabase(t, "journal_mode(DELETE)")
	logged := othersDatabase(t, "journal_mode(WAL)")
	damaged := bytes.Clone(theirs)
	for i := 4096; i < 4096+600; i++ {
		damaged[i] ^= 0xff
	}
	headless := own.settled(t)
	copy(headless, make([]byte, 16))
	png := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), bytes.Repeat([]byte{7}, 4096)...)
	for name, c := range map[string]struct {
		file image
		says string
	}{
		"a short text":                        {image{"": []byte("not a database")}, "is not a SQLite database"},
		"a text":                              {image{"": bytes.Repeat([]byte("garbage "), 1000)}, "is not a SQLite database"},
		"a text beside a log":                 {image{"": bytes.Repeat([]byte("garbage "), 1000), "-wal": own["-wal"], "-shm": own["-shm"]}, "is not a SQLite database"},
		"an image":                            {image{"": png}, "is not a SQLite database"},
		"our own without its header":          {image{"": headless}, "is not a SQLite database"},
		"another program's database":          {image{"": theirs}, "is the SQLite database of another program"},
		"another program's database, logged":  {image{"": logged}, "is the SQLite database of another program"},
		"another program's database, damaged": {image{"": damaged}, "is a damaged SQLite database, and not one of Lanekeeper's"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.file.write(t)
			for range 2 {
				_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Schema: migrations.Latest()})
				foreign, ok := errors.AsType[*sqlite.ForeignError](err)
				if !ok || foreign.Path != path || errors.Is(err, db.ErrCorrupt) {
					t.Fatalf("got %v", err)
				}
				if !strings.Contains(err.Error(), path+" "+c.says) || !strings.Contains(err.Error(), "left as it is") {
					t.Errorf("the error says %v", err)
				}
			}
			for part, want := range c.file {
				// The -shm file is an index of the log. SQLite may rebuild it at any time.
				if got, err := os.ReadFile(path + part); err != nil || !bytes.Equal(got, want) && part != "-shm" {
					t.Errorf("%q was changed: %d bytes, %v; it had %d", part, len(got), err, len(want))
				}
			}
			if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != len(c.file) {
				t.Errorf("the folder holds %v, %v", entries, err)
			}
		})
	}
}

// TestAnEmptyFileIsNew: a file without content counts as a new one.
func TestAnEmptyFileIsNew(t *testing.T) {
	for name, text := range map[string][]byte{"of no bytes": nil, "of SQLite, without tables": emptyDatabase(t)} {
		t.Run(name, func(t *testing.T) {
			path := image{"": text}.write(t)
			migrated(t, path)
			if err := open(t, sqlite.Config{Path: path, Schema: migrations.Latest()}).Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// othersDatabase returns a file with tables of another program.
func othersDatabase(t testing.TB, pragma string) []byte {
	t.Helper()
	return made(t, pragma, "CREATE TABLE photos (id INTEGER PRIMARY KEY, name TEXT)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO photos SELECT i, 'photo ' || i FROM n")
}

func emptyDatabase(t testing.TB) []byte {
	t.Helper()
	return made(t, "journal_mode(WAL)", "CREATE TABLE t (x)", "DROP TABLE t")
}

func made(t testing.TB, pragma string, statements ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "made.db")
	pool, err := sql.Open("sqlite", "file:"+path+"?_pragma="+pragma)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
