package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
)

// TestAFullDisk fills the disk of a runner. Writers are told the reason and the next step, the
// health shows it, and everything recovers as soon as there is room.
func TestAFullDisk(t *testing.T) {
	s := newTranscript(t)
	disk := filepath.Join(s.folder, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=16m")
	if errors.Is(err, syscall.EPERM) && !dbtest.InCI() {
		t.Skip("NOT RUN: only root can make a small disk")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join("disk", "lk.db")
	h := home{t, append(s.environ, "SQLITE_PATH="+path, "DEMO=0")}
	d := h.dev()
	url, token, _ := d.started()
	health := func() (int, string) { return call(t, http.MethodGet, url+"/health", token, "") }
	create := func() (int, string) {
		return call(t, http.MethodPost, url+"/api/v1/objectives", token, `{"title":"Sell ice"}`)
	}
	if status, body := create(); status != http.StatusCreated {
		t.Fatalf("with room: %d %s", status, body)
	}
	filler := fill(t, path, filepath.Join(disk, "filler"))

	s.says("## The disk is full")
	status, body := create()
	s.says("POST /api/v1/objectives answers %d\n%s", status, strings.TrimSpace(body))
	status, body = health()
	s.says("GET /health answers %d\n%s", status, strings.TrimSpace(untilCircuits(body)))
	s.environ = h.environ
	s.types("lanekeeper ask hello")
	doctored := h.do("doctor")
	says(t, doctored.out, "fail lanes", "no space is left on its disk", "→ Make room on the disk that holds the database")

	s.says("## There is room again")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	status, body = health()
	s.says("GET /health answers %d\n%s", status, strings.TrimSpace(untilCircuits(body)))
	if status, body := create(); status != http.StatusCreated {
		t.Errorf("with room again: %d %s", status, body)
	}
	if code := d.end(); code != exitDone {
		t.Errorf("exit code %d\n%s", code, d)
	}
	s.ends("full_disk.golden")
}

// untilCircuits returns the parts of a health response that come before the circuits.
func untilCircuits(body string) string {
	parts, _, _ := strings.Cut(body, `,"lastHeartbeat"`)
	return parts
}

// fill uses all the room that is left beside a database. The database's log has no space to reuse.
func fill(t *testing.T, path, filler string) string {
	t.Helper()
	write, read, err := sqlite.OpenPools(sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	var busy, log, done int
	if err := write.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done); err != nil || busy != 0 {
		t.Fatalf("empty the log: busy %d, %v", busy, err)
	}
	if err := errors.Join(write.Close(), read.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, piece := range []int{64 << 10, 4096, 1} {
		for {
			if _, err = io.WriteString(f, strings.Repeat("x", piece)); err != nil {
				break
			}
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return filler
}
