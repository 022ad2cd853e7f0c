// Package quiet asks in one statement whether a workspace may have something to do. A
// heartbeat of one that has nothing asks nothing else.
package quiet

import (
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/retain"
)

//go:embed *.sql
var files embed.FS

// Store asks in all workspaces. It is safe for concurrent use.
type Store struct {
	q struct{ Look db.Query }
}

// New makes a store.
func New() (*Store, error) {
	s := &Store{}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("quiet: %w", err)
	}
	return s, nil
}

// A Question says what counts in a look.
type Question struct {
	Slot   string   // of the schedule, which may have been run; empty: none
	Topics []string // of the outbox, whose rows are sent here
	// Reflection is the name under which the last reflection was recorded, Back how far
	// back it counts.
	Reflection string
	Back       time.Duration
}

// Look is what a look has found.
type Look struct {
	// Work reports whether there may be something to do. False: there is nothing, but
	// what the other two say.
	Work    bool
	Oldest  retain.Oldest
	Stirred Stirred
}

// Stirred says when a name was recorded last, and whether a skill was used since.
type Stirred struct {
	At    *time.Time // nil: never
	Since bool
}

// Look adds a look to a batch.
func (s *Store) Look(b *db.Batch, of Question) *Look {
	l := new(Look)
	topics, _ := json.Marshal(of.Topics) // strings always have one
	columns := append([]any{&l.Work}, append(l.Oldest.Columns(), &l.Stirred.At, &l.Stirred.Since)...)
	b.One(columns, s.q.Look, db.Null(of.Slot), string(topics), heal.Orphaned.Milliseconds(), heal.Silence.Milliseconds(),
		heal.Streak, heal.Window.Milliseconds(), of.Reflection, of.Back.Milliseconds())
	return l
}
