package heal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// Retention is how long what has ended is kept.
type Retention struct {
	Activity time.Duration // and executions, approvals; usage and the budgets of days, but a month at least; heals, while they may relapse at least
	Events   time.Duration
	Outbox   time.Duration
}

// orphaned is for how long nothing was written of an execution that nobody works on.
const orphaned = time.Hour

// silence is for how long nothing was heard of an execution that no lane protects, where
// it has no time of its own.
const silence = 7 * 24 * time.Hour

// The most that are looked at once.
const (
	maxOrphans = 200
	maxSilent  = 50
)

// Oldest is how old the oldest rows are.
type Oldest struct {
	now                             time.Time
	activity, events, outbox, usage *time.Time
	keys                            *time.Time // when the first of them lapsed, or will
}

// Oldest adds a look for whether anything is old enough to go.
func (s *Store) Oldest(b *db.Batch) *Oldest {
	o := new(Oldest)
	b.One([]any{&o.now, &o.activity, &o.events, &o.outbox, &o.usage, &o.keys}, s.q.Oldest)
	return o
}

// Due reports whether anything is older by an hour than it is kept: a purge each
// hour is often enough.
func (o *Oldest) Due(keep Retention) bool {
	over := func(at *time.Time, keep time.Duration) bool { return at != nil && o.now.Sub(*at) > keep+time.Hour }
	return over(o.activity, keep.Activity) || over(o.events, keep.Events) || over(o.outbox, keep.Outbox) ||
		over(o.usage, keep.usage()) || over(o.keys, 0)
}

// usageKept is how long usage is kept at least: for the budgets of a month, and for
// longer than a reservation that may be settled late.
const usageKept = 31 * 24 * time.Hour

func (r Retention) usage() time.Duration { return max(r.Activity, usageKept) }

// batch is the most rows of one kind that a round of a purge deletes. The statements
// have it too.
const batch = 2000

// Purge is one round of letting go of what is older than it is kept: 2,000 rows of
// each kind at most. It reports whether there may be more.
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
		b.Each(func(scan db.Scan) error { // a row that went, or how many did
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
	Silent []string // no lane protects them, and nothing was heard of them in their time, a week where they have none
}

// Orphan is an execution and the lane that protects it.
type Orphan struct {
	ID   string
	Lane lane.Name
}

// Count is how many there are.
func (o *Orphans) Count() int { return len(o.Cut) + len(o.Silent) }

// Orphans adds a look for executions, but heartbeats', that nobody works on any more.
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
	}, s.q.Orphans, orphaned.Milliseconds(), maxOrphans, silence.Milliseconds(), maxSilent)
	return o
}

// SilentNow adds a look for the executions that have a time of their own in which
// nothing was heard of them nor of any execution below them, to a batch.
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

// Silent locks the row of an execution, and reports whether it is silent still, with
// all below it.
func (s *Store) Silent(ctx context.Context, tx Tx, id string) (silent bool, err error) {
	tx.Later().Exec(s.q.Lock, id)
	if err := tx.Each(ctx, func(db.Scan) error { silent = true; return nil }, s.q.Silent, id, silence.Milliseconds()); err != nil {
		return false, fmt.Errorf("look for a silent execution: %w", err)
	}
	return silent, nil
}

// Close ends an orphaned execution, and reports whether it did: one that was taken up
// since the look stays. The transaction must prove the execution's lane.
func (s *Store) Close(ctx context.Context, tx lane.Tx, o Orphan) (bool, error) {
	if err := tx.Proves(o.Lane); err != nil {
		return false, fmt.Errorf("close an orphaned execution: %w", err)
	}
	tx.Later().Exec(s.q.Lock, o.ID)
	n, err := tx.Exec(ctx, s.q.Close, o.ID, orphaned.Milliseconds())
	if err != nil {
		return false, fmt.Errorf("close an orphaned execution: %w", err)
	}
	return n > 0, nil
}
