package thread

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// A Glance is what a list of conversations shows of one beside the thread itself.
type Glance struct {
	Role  Role // of the last message; empty: there is none
	Text  string
	At    time.Time
	Agent string // of the execution that holds the thread
}

// maxGlance bounds the text of the last message, in characters.
const maxGlance = 300

// Glances reads the last message and the holder's agent of threads, by their ids. It runs one
// statement, for any number of threads.
func (s *Store) Glances(ctx context.Context, ws db.Workspace, threads []Thread) (map[string]Glance, error) {
	if len(threads) == 0 {
		return nil, nil
	}
	ids := make([]string, len(threads))
	for i, t := range threads {
		ids[i] = t.ID
	}
	out := make(map[string]Glance, len(threads))
	err := s.db.Each(ctx, ws, db.Put(out, func(scan db.Scan, id *string, g *Glance) error {
		return scan(id, db.Optional(&g.Role), db.Optional(&g.Text), db.Optional(&g.At), db.Optional(&g.Agent))
	}), s.q.Glances, list(ids...), maxGlance)
	if err != nil {
		return nil, fmt.Errorf("glance at threads: %w", err)
	}
	return out, nil
}

// Expires returns when the lock ends by itself, should nobody refresh it; nil: nobody holds it, or its
// end is past already.
func (l Lock) Expires() *time.Time {
	if l.Holder == "" || l.State == Stale {
		return nil
	}
	until := l.Since.Add(Idle)
	if l.ParkedBy == l.Holder && l.ParkedUntil != nil {
		until = *l.ParkedUntil
	}
	return &until
}
