package servers

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDirectoryClosedToTheAccount(t *testing.T) {
	who, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	if who == nil {
		t.Skip("an ordinary user runs servers as itself")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := newHome(filepath.Join(dir, "server")); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error = %v, want one that names %s", err, dir)
	}
}

func TestSweepRemovesOnlyWhatNobodyHolds(t *testing.T) {
	base := t.TempDir()
	old := time.Now().Add(-time.Hour)
	mkdir := func(name string, changed time.Time) string {
		dir := filepath.Join(base, name)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "data"), 0o700), os.Chtimes(dir, changed, changed)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	stale, held := mkdir(prefix+"stale", old), mkdir(prefix+"held", old)
	young, foreign := mkdir(prefix+"young", time.Now()), mkdir("foreign", old)
	holder, err := lock(held)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close() }()

	sweep(base)
	for dir, want := range map[string]bool{stale: false, held: true, young: true, foreign: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", filepath.Base(dir), err, want)
		}
	}
}
