package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

func migrated(t testing.TB, path string) {
	t.Helper()
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	_, err = migrate.SQLite(t.Context(), write, slog.New(slog.DiscardHandler))
	if err := errors.Join(err, read.Close(), write.Close()); err != nil {
		t.Fatal(err)
	}
}

// mode fails unless the file has the mode.
func mode(t testing.TB, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Error(err)
	} else if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", filepath.Base(path), got, want)
	}
}

// TestModes: nobody else may read the file, its log or its folder, wherever they are.
func TestModes(t *testing.T) {
	names := []string{"a/b/plain.db", "with space & ü/100% #1?.db", "a:b;c=d/[x].db"}
	if testing.Short() { // under the race detector the migration of a file takes seconds
		names = names[1:2]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), filepath.FromSlash(name))
			migrated(t, path)
			d := open(t, sqlite.Config{Path: path, Schema: migrations.Latest()})
			var q queries
			if err := load(&q); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Exec(t.Context(), "", q.Set, "none", 1); err != nil {
				t.Fatal(err)
			}
			mode(t, filepath.Dir(path), 0o700)
			for _, suffix := range []string{"", "-wal", "-shm"} {
				mode(t, path+suffix, 0o600)
			}
			entries, err := os.ReadDir(filepath.Dir(path))
			if err != nil || len(entries) != 3 {
				t.Errorf("the folder holds %v, %v", entries, err)
			}
		})
	}
}

func TestARelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	open(t, sqlite.Config{Path: ".lanekeeper/lanekeeper.db"})
	mode(t, ".lanekeeper", 0o700)
	mode(t, ".lanekeeper/lanekeeper.db", 0o600)
}

// TestAFolderThatIsThere: an existing folder keeps its mode.
func TestAFolderThatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, sqlite.Config{Path: filepath.Join(dir, "x.db")})
	mode(t, dir, 0o755)
}

func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: dir})
	if _, foreign := errors.AsType[*sqlite.ForeignError](err); !foreign || !strings.Contains(err.Error(), dir+" is a folder: it was left as it is") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the folder: %v", err)
	}
}

func TestSchema(t *testing.T) {
	path, latest := filepath.Join(t.TempDir(), "x.db"), migrations.Latest()
	wants := func(need int64, want db.SchemaError, advice string) {
		t.Helper()
		_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Schema: need})
		if got, ok := errors.AsType[*db.SchemaError](err); !ok || *got != want || !strings.Contains(err.Error(), advice) {
			t.Errorf("got %v, want %+v with %q", err, want, advice)
		}
	}
	missing := fmt.Sprintf("the database has no Lanekeeper schema (this build needs version %d): run 'bin/lanekeeper migrate'", latest)
	wants(latest, db.SchemaError{Need: latest}, missing)
	wants(latest, db.SchemaError{Need: latest}, missing) // now of an existing file
	migrated(t, path)
	wants(latest+1, db.SchemaError{Have: latest, Need: latest + 1},
		fmt.Sprintf("the database schema is at version %d, this build needs %d: run 'bin/lanekeeper migrate'", latest, latest+1))
	for _, need := range []int64{0, latest - 1, latest} {
		if err := open(t, sqlite.Config{Path: path, Schema: need}).Check(t.Context()); err != nil {
			t.Errorf("schema %d: %v", need, err)
		}
	}
}

// image is a database as a killed process leaves it: the last writes are in the log only.
type image map[string][]byte

var parts = []string{"", "-wal", "-shm"}

func crashed(t testing.TB) (image, world, string) {
	t.Helper()
	w := newWorld(t)
	id := w.add(t)
	for range 50 {
		w.add(t)
	}
	if err := w.q.increment(t.Context(), w.DB, w.Workspace, id); err != nil {
		t.Fatal(err)
	}
	img := image{}
	for _, part := range parts {
		text, err := os.ReadFile(w.URL + part)
		if err != nil {
			t.Fatal(err)
		}
		img[part] = text
	}
	return img, w, id
}

func (img image) write(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	for part, text := range img {
		if err := os.WriteFile(path+part, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestNothingIsLostInACrash(t *testing.T) {
	img, w, id := crashed(t)
	for name, img := range map[string]image{
		"with its log":               img,
		"with its log, unindexed":    {"": img[""], "-wal": img["-wal"]},
		"with a torn end of its log": {"": img[""], "-wal": append(bytes.Clone(img["-wal"]), "torn"...)},
	} {
		t.Run(name, func(t *testing.T) {
			w.counts(t, open(t, sqlite.Config{Path: img.write(t), Schema: migrations.Latest()}), id, 1)
		})
	}
}

// settled returns only the file, after a checkpoint of its log. A log would hide damage.
func (img image) settled(t testing.TB) []byte {
	t.Helper()
	path := img.write(t)
	d, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err == nil {
		err = d.Close()
	}
	text, rerr := os.ReadFile(path)
	if err := errors.Join(err, rerr); err != nil {
		t.Fatal(err)
	}
	return text
}

// cells returns the number of rows in a page of a table.
func cells(page []byte) int { return int(page[3])<<8 + int(page[4]) }

// content returns where the rows of a page begin. The space before them is free.
func content(page []byte) int { return int(page[5])<<8 + int(page[6]) }

// TestDamaged: a damaged database of Lanekeeper is moved aside unchanged, with its log, and the
// error says where.
func TestDamaged(t *testing.T) {
	img, _, _ := crashed(t)
	whole := img.settled(t)
	const page = 4096
	damage := func(at, n int) []byte {
		text := bytes.Clone(whole)
		for i := at; i < at+n; i++ {
			text[i] ^= 0xff
		}
		return text
	}
	rows := 0 // the page of a table with the most rows
	for at := page; at < len(whole); at += page {
		if whole[at] == 0x0d && (rows == 0 || cells(whole[at:]) > cells(whole[rows:])) {
			rows = at
		}
	}
	for name, img := range map[string]image{
		"bytes in a page flipped":         {"": damage(rows+content(whole[rows:]), 400)},
		"the start of a page flipped":     {"": damage(rows, 16)},
		"cut off in the middle of a page": {"": whole[:len(whole)/2+page/2]},
		"schema page flipped, with a log": {"": damage(100, 2000), "-wal": {}, "-shm": {}},
	} {
		t.Run(name, func(t *testing.T) {
			path := img.write(t)
			_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Schema: migrations.Latest()})
			ce, ok := errors.AsType[*sqlite.CorruptError](err)
			if !ok || !errors.Is(err, db.ErrCorrupt) {
				t.Fatalf("got %v", err)
			}
			if ce.Path != path || !strings.HasPrefix(ce.MovedTo, path+".corrupt-") ||
				!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), ce.MovedTo) || !strings.Contains(err.Error(), "nothing was deleted") {
				t.Errorf("the error says %v", err)
			}
			for part, want := range img {
				got, err := os.ReadFile(ce.MovedTo + part)
				// The -shm file is an index of the log. SQLite may rebuild it at any time.
				if err != nil || !bytes.Equal(got, want) && part != "-shm" {
					t.Errorf("%q has %d bytes aside, %v; it had %d", part, len(got), err, len(want))
				}
			}
			for _, part := range parts {
				if _, err := os.Stat(path + part); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%q is still there: %v", part, err)
				}
			}
			// The next start begins with an empty database, and the old file stays.
			if err := open(t, sqlite.Config{Path: path}).Check(context.Background()); err != nil {
				t.Error(err)
			}
			mode(t, path, 0o600)
			if _, err := os.Stat(ce.MovedTo); err != nil {
				t.Error(err)
			}
		})
	}
}
