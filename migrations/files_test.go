package migrations_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/migrations"
)

var add = flag.Bool("add", false, "add the lines of new files to checksums.txt")

const checksums = "checksums.txt"

// A file that has landed is never edited: existing databases would never get the change.
func TestChecksums(t *testing.T) {
	landed := readChecksums(t)
	var fresh []string
	for path, text := range sources(t) {
		sum := sha256.Sum256(text)
		is := hex.EncodeToString(sum[:])
		switch was, known := landed[path]; {
		case !known:
			fresh = append(fresh, is+"  "+path)
		case was != is:
			t.Errorf("%s was edited after it had landed: databases that have it will never see the change. "+
				"Take the edit back and write a new migration", path)
		}
		delete(landed, path)
	}
	for path := range landed {
		t.Errorf("%s has landed and is gone: bring it back", path)
	}
	slices.SortFunc(fresh, func(a, b string) int { return strings.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	switch {
	case len(fresh) == 0:
	case *add:
		appendLines(t, fresh)
	default:
		t.Errorf("new files are not in %s:\n%s\nAdd them with: go test ./migrations -run Checksums -add", checksums, strings.Join(fresh, "\n"))
	}
}

// sources returns the migrations by path.
func sources(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for dir, files := range map[string]fs.FS{"postgres": migrations.Postgres(), "sqlite": migrations.SQLite()} {
		paths, err := fs.Glob(files, "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := fs.ReadFile(files, path)
			if err != nil {
				t.Fatal(err)
			}
			out[dir+"/"+path] = text
		}
	}
	return out
}

// readChecksums reads the format of sha256sum: a sum, two spaces, a path.
func readChecksums(t testing.TB) map[string]string {
	t.Helper()
	text, err := os.ReadFile(checksums)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		sum, path, ok := strings.Cut(lines.Text(), "  ")
		if _, err := hex.DecodeString(sum); err != nil || !ok || len(sum) != sha256.Size*2 || out[path] != "" {
			t.Fatalf("%s: a line that can't be read, or a path twice: %q", checksums, lines.Text())
		}
		out[path] = sum
	}
	return out
}

func appendLines(t testing.TB, lines []string) {
	t.Helper()
	f, err := os.OpenFile(checksums, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintln(f, strings.Join(lines, "\n"))
	if cerr := f.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
}

var (
	fileName     = regexp.MustCompile(`^(\d{4})_[a-z0-9_]+\.sql$`)
	concurrently = regexp.MustCompile(`(?i)\bconcurrently\b`)
)

// statesOldest is the first file that states the oldest build that works with its version.
const statesOldest = "0038"

var oldestLine = regexp.MustCompile(`(?m)^-- oldest: (\d+)$`)

// oldestOf returns the oldest build that works with the version of a file.
func oldestOf(t *testing.T, path, text, version string) int64 {
	t.Helper()
	lines := oldestLine.FindAllStringSubmatch(text, -1)
	if len(lines) != 1 {
		t.Errorf("%s: one line says \"-- oldest: N\": builds whose newest migration is N may run on this schema. "+
			"N is the version before where the file only adds, and %s where older builds would break", path, version)
		return 0
	}
	build, err1 := strconv.ParseInt(lines[0][1], 10, 64)
	own, err2 := strconv.ParseInt(version, 10, 64)
	if err1 != nil || err2 != nil || build < 1 || build > own {
		t.Errorf("%s: the oldest build is %s", path, lines[0][1])
	}
	return build
}

// The files of both engines have the same numbers and names, without a gap, and contain a down
// migration.
func TestFiles(t *testing.T) {
	names, oldest := map[string][]string{}, map[string][]int64{}
	all := sources(t)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		dir, name, _ := strings.Cut(path, "/")
		names[dir] = append(names[dir], name)
		text := string(all[path])
		m := fileName.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("%s: a file is called NNNN_name.sql", path)
			continue
		}
		if want := fmt.Sprintf("%04d", len(names[dir])); m[1] != want {
			t.Errorf("%s: the next number is %s", path, want)
		}
		if !strings.HasPrefix(text, "-- ") {
			t.Errorf("%s: the first line says what the file is about", path)
		}
		for _, part := range []string{"\n-- +goose Up\n", "\n-- +goose Down\n"} {
			if strings.Count(text, part) != 1 {
				t.Errorf("%s: %q must be there once", path, strings.TrimSpace(part))
			}
		}
		if m[1] >= statesOldest {
			oldest[name] = append(oldest[name], oldestOf(t, path, text, m[1]))
		}
		if concurrently.MatchString(text) && !strings.Contains(text, "\n-- +goose NO TRANSACTION\n") {
			t.Errorf("%s: what runs concurrently stands in a file with -- +goose NO TRANSACTION", path)
		}
	}
	if !slices.Equal(names["postgres"], names["sqlite"]) {
		t.Errorf("the files differ:\npostgres %q\nsqlite   %q", names["postgres"], names["sqlite"])
	}
	for name, both := range oldest {
		if len(slices.Compact(both)) != 1 {
			t.Errorf("%s: the oldest builds differ: %d", name, both)
		}
	}
	if got, want := migrations.Latest(), int64(len(names["postgres"])); got != want {
		t.Errorf("Latest is %d, want %d", got, want)
	}
}
