package heal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// Retention says how long rows are kept after they have ended.
type Retention struct {
	// Activity also applies to executions and approvals. Usage and daily budgets are kept at least
	// a month, heals at least as long as they may relapse.
	Activity time.Duration
	Events   time.Duration
	Outbox   time.Duration
}

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

// Oldest holds the ages of the oldest rows.
type Oldest struct {
	now                             time.Time
	activity, events, outbox, usage *time.Time
	keys                            *time.Time // the earliest expiry of an idempotency key
}

// Columns returns the targets of a query for the oldest rows: now, the oldest activity, event,
// outbox row and usage row, and the earliest expiry of an idempotency key.
func (o *Oldest) Columns() []any {
	return []any{&o.now, &o.activity, &o.events, &o.outbox, &o.usage, &o.keys}
}

// Due reports whether any row exceeds its retention by an hour. The margin makes a purge run at
// most about once an hour.
func (o *Oldest) Due(keep Retention) bool {
	over := func(at *time.Time, keep time.Duration) bool { return at != nil && o.now.Sub(*at) > keep+time.Hour }
	return over(o.activity, keep.Activity) || over(o.events, keep.Events) || over(o.outbox, keep.Outbox) ||
		over(o.usage, keep.usage()) || over(o.keys, 0)
}

// usageKept is the minimum retention of usage. Monthly budgets need it, and it is longer than a
// reservation can take to be settled.
const usageKept = 31 * 24 * time.Hour

func (r Retention) usage() time.Duration { return max(r.Activity, usageKept) }

// batch is the most rows of one kind that one round of a purge deletes. The statements contain the
// same number.
const batch = 2000

// Purge runs one round of deletion: at most 2,000 rows of each kind that exceed their retention. It
// reports whether there may be more.
func (s *Store) Purge(ctx context.Context, ws db.Workspace, keep Retention) (more bool, err error) {
	var b db.Batch
	var gone [10]int
	for i, p := range []struct {
		of   db.Query
		keep time.Duration
	}{
		{s.q.PurgeActivity, keep.Activity},
		{s.q.PurgeEvents, keep.Events},
		{s.q.PurgeExecutions, keep.Activity},
		{s.q.PurgeApprovals, keep.Activity},
		{s.q.PurgeOutbox, keep.Outbox},
		{s.q.PurgeMemories, keep.Outbox},
		{s.q.PurgeUsage, keep.usage()},
		{s.q.PurgeBudgets, keep.usage()},
		{s.q.PurgeHeals, max(keep.Activity, maxCooldown)},
		{s.q.PurgeKeys, 0},
	} {
		b.Each(func(scan db.Scan) error { // a row per deletion, or one row with the count
			var n int
			err := scan(&n)
			gone[i] += n
			return err
		}, p.of, p.keep.Milliseconds())
	}
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return false, fmt.Errorf("let go of what is old: %w", err)
	}
	return slices.Max(gone[:]) >= batch, nil
}

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
	b.Each(func(scan db.Scan) error {
		var id string
		err := scan(&id)
		*found = append(*found, id)
		return err
	}, s.q.SilentNow, maxSilent)
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
