// Package quiet asks in one statement whether a workspace may have work for a heartbeat. A
// heartbeat without work asks nothing else.
package quiet

import (
	"embed"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/retain"
)

//go:embed *.sql
var files embed.FS

// Store asks for any workspace. It is safe for concurrent use.
type Store struct {
	q struct{ Look db.Query }
}

// New returns a store.
func New() (*Store, error) {
	s := &Store{}
	return s, db.Load(files, &s.q)
}

// A Question says what counts as work.
type Question struct {
	Slot   string   // slot that this beat would run; empty: none
	Topics []string // topics of the outbox whose rows a beat sends or has sent
	// Reflection is the name under which reflections are recorded in the activity log. Reflections
	// older than Back do not count.
	Reflection string
	Back       time.Duration
}

// Look is the answer to a Question.
type Look struct {
	// Work reports whether there may be work. If it is false, there is none except a purge that
	// Oldest calls for or a reflection that Stirred calls for.
	Work    bool
	Oldest  retain.Oldest
	Stirred Stirred
}

// Stirred says when Question.Reflection was last recorded, and whether a skill was used since then.
type Stirred struct {
	At    *time.Time // nil: never
	Since bool
}

// Look adds the statement to a batch.
func (s *Store) Look(b *db.Batch, of Question) *Look {
	l := new(Look)
	columns := append([]any{&l.Work}, append(l.Oldest.Columns(), &l.Stirred.At, &l.Stirred.Since)...)
	b.One(columns, s.q.Look, db.Null(of.Slot), db.Encode(of.Topics), heal.Orphaned.Milliseconds(), heal.Silence.Milliseconds(),
		heal.Streak, heal.Window.Milliseconds(), of.Reflection, of.Back.Milliseconds())
	return l
}
