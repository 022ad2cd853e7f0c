package sqlite

import (
	"path/filepath"
	"strconv"
	"testing"
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
	leave(again, false)
	last := sit()
	if last == first {
		t.Error("a session goes on that may be in a transaction")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	leave(last, true)
	if s, err := e.sit(t.Context()); err == nil {
		t.Errorf("a closed handle reads with %v", s)
	}
}
