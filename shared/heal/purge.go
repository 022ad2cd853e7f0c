package heal

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Retention is how long what has ended is kept.
type Retention struct {
	Activity time.Duration // and executions, approvals
	Events   time.Duration
	Outbox   time.Duration
}

// orphaned is for how long nothing was written of an execution that nobody works on.
const orphaned = time.Hour

// maxOrphans is the most that are closed at once.
const maxOrphans = 200

// Oldest is how old the oldest rows are.
type Oldest struct {
	now                      time.Time
	activity, events, outbox *time.Time
}

// Oldest adds a look for whether anything is old enough to go.
func (s *Store) Oldest(b *db.Batch) *Oldest {
	o := new(Oldest)
	b.One([]any{&o.now, &o.activity, &o.events, &o.outbox}, s.q.Oldest)
	return o
}

// Due reports whether anything is older by an hour than it is kept: a purge each
// hour is often enough.
func (o *Oldest) Due(keep Retention) bool {
	over := func(at *time.Time, keep time.Duration) bool { return at != nil && o.now.Sub(*at) > keep+time.Hour }
	return over(o.activity, keep.Activity) || over(o.events, keep.Events) || over(o.outbox, keep.Outbox)
}

// Purge lets go of what is older than it is kept, at most some thousands of rows of
// each kind: what is left goes the next time.
func (s *Store) Purge(ctx context.Context, ws db.Workspace, keep Retention) error {
	var b db.Batch
	ignore := func(db.Scan) error { return nil }
	b.Each(ignore, s.q.PurgeActivity, keep.Activity.Milliseconds())
	b.Each(ignore, s.q.PurgeEvents, keep.Events.Milliseconds())
	b.Exec(s.q.PurgeExecutions, keep.Activity.Milliseconds())
	b.Exec(s.q.PurgeApprovals, keep.Activity.Milliseconds())
	b.Exec(s.q.PurgeOutbox, keep.Outbox.Milliseconds())
	b.Exec(s.q.PurgeMemories, keep.Outbox.Milliseconds())
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return fmt.Errorf("let go of what is old: %w", err)
	}
	return nil
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
