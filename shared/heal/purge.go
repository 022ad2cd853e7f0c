package heal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Retention is how long what has ended is kept.
type Retention struct {
	Activity time.Duration // and executions, approvals; usage, but a month at least
	Events   time.Duration
	Outbox   time.Duration
}

// orphaned is for how long nothing was written of an execution that nobody works on.
const orphaned = time.Hour

// maxOrphans is the most that are closed at once.
const maxOrphans = 200

// Oldest is how old the oldest rows are.
type Oldest struct {
	now                             time.Time
	activity, events, outbox, usage *time.Time
}

// Oldest adds a look for whether anything is old enough to go.
func (s *Store) Oldest(b *db.Batch) *Oldest {
	o := new(Oldest)
	b.One([]any{&o.now, &o.activity, &o.events, &o.outbox, &o.usage}, s.q.Oldest)
	return o
}

// Due reports whether anything is older by an hour than it is kept: a purge each
// hour is often enough.
func (o *Oldest) Due(keep Retention) bool {
	over := func(at *time.Time, keep time.Duration) bool { return at != nil && o.now.Sub(*at) > keep+time.Hour }
	return over(o.activity, keep.Activity) || over(o.events, keep.Events) || over(o.outbox, keep.Outbox) ||
		over(o.usage, keep.usage())
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
	var gone [7]int
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

// Orphans adds a look for executions, but heartbeats', that nobody works on any more.
func (s *Store) Orphans(b *db.Batch) *[]string {
	found := new([]string)
	b.Each(func(scan db.Scan) error {
		var id string
		err := scan(&id)
		*found = append(*found, id)
		return err
	}, s.q.Orphans, orphaned.Milliseconds(), maxOrphans)
	return found
}

// Close ends orphaned executions. One that was taken up since the look stays.
func (s *Store) Close(b *db.Batch, ids []string) {
	for _, id := range ids {
		b.Exec(s.q.Close, id, orphaned.Milliseconds())
	}
}
