package sqlite

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// TestAReaderKeepsItsStatements: reads after each other prepare a statement once. A session that may
// still be in a transaction is not used again, and none is after the handle is closed.
func TestAReaderKeepsItsStatements(t *testing.T) {
	write, read, err := OpenPools(Config{Path: filepath.Join(t.TempDir(), "x.db")})
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{looking: make(chan *session, 1), read: read, write: write}
	e.looking <- nil
	sit := func() *session {
		s, err := e.sit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	leave := func(s *session, ended bool) {
		if err := e.leave(s, ended); err != nil {
			t.Error(err)
		}
	}
	first := sit()
	for n := range 2 * statements {
		if err := first.whole(t.Context(), "SELECT "+strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
	}
	if len(first.stmts) != statements {
		t.Errorf("it keeps %d statements, want %d", len(first.stmts), statements)
	}
	leave(first, true)
	again := sit()
	if again != first {
		t.Error("the second read has a session of its own")
	}
	if err := again.whole(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	leave(again, false)
	last := sit()
	if err := last.whole(t.Context(), "BEGIN"); err != nil {
		t.Errorf("a connection goes on that is in a transaction: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	leave(last, true)
	if s, err := e.sit(t.Context()); err == nil {
		t.Errorf("a closed handle reads with %v", s)
	}
}

// TestClosingBesideReaders: a handle that is closed while others read neither waits for them nor stops
// them for good.
func TestClosingBesideReaders(t *testing.T) {
	var q struct{ Look db.Query }
	source := "-- name: Look\n-- global: about the connection\nSELECT 1;"
	if err := db.Load(fstest.MapFS{"look.sql": {Data: []byte(source)}}, &q); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for round := range 50 {
		d, err := Open(t.Context(), Config{Path: filepath.Join(folder, strconv.Itoa(round))})
		if err != nil {
			t.Fatal(err)
		}
		var reading sync.WaitGroup
		begun := make(chan struct{}, 2*readers)
		for range 2 * readers {
			reading.Go(func() {
				begun <- struct{}{}
				for n, err := 0, error(nil); n < 1000 && err == nil; n++ {
					var one int
					err = d.One(t.Context(), "", []any{&one}, q.Look)
				}
			})
		}
		<-begun
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		reading.Wait()
	}
}
