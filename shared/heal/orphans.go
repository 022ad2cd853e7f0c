package heal

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// Orphaned is how long an execution without a holder must be unchanged to count as orphaned.
const Orphaned = time.Hour

// Silence is how long an execution without a lane must be unchanged to count as silent, if it has
// no timeout of its own.
const Silence = 7 * 24 * time.Hour

// The most executions that one look returns.
const (
	maxOrphans = 200
	maxSilent  = 50
)

// Orphans are executions that nobody works on any more.
type Orphans struct {
	Cut    []Orphan // their lane is free; [Store.Close] ends them
	Silent []string // no lane protects them, and they were unchanged for their own timeout, or for a week without one
}

// Orphan is an execution and the lane that protects it.
type Orphan struct {
	ID   string
	Lane lane.Name
}

// Count is the number of both.
func (o *Orphans) Count() int { return len(o.Cut) + len(o.Silent) }

// Orphans adds a query for executions that nobody works on any more to a batch. It leaves out those
// of the heartbeat.
func (s *Store) Orphans(b *db.Batch) *Orphans {
	o := new(Orphans)
	b.Each(func(scan db.Scan) error {
		var id string
		var subject *string
		var silent bool
		err := scan(&id, &subject, &silent)
		if silent {
			o.Silent = append(o.Silent, id)
		} else if subject != nil {
			o.Cut = append(o.Cut, Orphan{id, lane.Name(*subject)})
		}
		return err
	}, s.q.Orphans, Orphaned.Milliseconds(), maxOrphans, Silence.Milliseconds(), maxSilent)
	return o
}

// SilentNow adds a query to a batch for executions with a timeout of their own. It finds those that
// were unchanged for that time, together with all executions below them.
func (s *Store) SilentNow(b *db.Batch) *[]string {
	found := new([]string)
	b.Each(db.Column(found), s.q.SilentNow, maxSilent)
	return found
}

// Silent locks the row of an execution. It reports whether the execution is still silent, together
// with all executions below it.
func (s *Store) Silent(ctx context.Context, tx Tx, id string) (silent bool, err error) {
	tx.Later().Exec(s.q.Lock, id)
	if err := tx.Each(ctx, func(db.Scan) error { silent = true; return nil }, s.q.Silent, id, Silence.Milliseconds()); err != nil {
		return false, fmt.Errorf("look for a silent execution: %w", err)
	}
	return silent, nil
}

// Close ends an orphaned execution, and reports whether it did. It leaves an execution that was
// resumed after the look. The transaction must prove the execution's lane.
func (s *Store) Close(ctx context.Context, tx lane.Tx, o Orphan) (bool, error) {
	if err := tx.Proves(o.Lane); err != nil {
		return false, fmt.Errorf("close an orphaned execution: %w", err)
	}
	tx.Later().Exec(s.q.Lock, o.ID)
	n, err := tx.Exec(ctx, s.q.Close, o.ID, Orphaned.Milliseconds())
	if err != nil {
		return false, fmt.Errorf("close an orphaned execution: %w", err)
	}
	return n > 0, nil
}
