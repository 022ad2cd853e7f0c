package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// owed is a claim that may be in the database although nobody works on its rows: the answer to it, or to
// the mark of a row, was lost.
type owed struct {
	ws    db.Workspace
	token string
	row   string // that the claim is given back for; empty: for all its rows
	since time.Time
}

const (
	// owedFor is how long a claim is given back again and again: the server may still be working on it.
	owedFor = 10 * time.Second
	maxOwed = 1000
)

// owe notes a claim that [Sender.Settle] gives back, for one of its rows or for all of them. Beyond maxOwed,
// claims end with their leases.
func (s *Sender) owe(ws db.Workspace, token, row string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.owed) < maxOwed {
		s.owed = append(s.owed, owed{ws, token, row, time.Now()})
	}
}

// Settle gives back the claims of this sender whose rows nobody works on, so that they are claimed again
// at once and not when their leases are over. It is called before due rows are looked for.
func (s *Sender) Settle(ctx context.Context) error {
	s.mu.Lock()
	all := s.owed
	s.owed = nil
	s.mu.Unlock()
	var errs []error
	var left []owed
	for _, o := range all {
		q, args := s.Store.q.GiveBackClaim, []any{o.token}
		if o.row != "" { // the handlers of the claim's other rows may work
			q, args = s.Store.q.GiveBackRow, append(args, o.row)
		}
		if _, err := s.Store.db.Exec(ctx, o.ws, q, args...); err != nil {
			errs = append(errs, err)
			left = append(left, o)
		} else if time.Since(o.since) < owedFor {
			left = append(left, o)
		}
	}
	s.mu.Lock()
	s.owed = append(left, s.owed...)
	s.mu.Unlock()
	if len(errs) > 0 {
		return fmt.Errorf("give back claims of outbox rows: %w", errors.Join(errs[:min(len(errs), 3)]...))
	}
	return nil
}
