// Package retain deletes rows whose retention is over.
package retain

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/heal"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	Activity, Events, Executions, Approvals, Outbox db.Query
	Memories, Usage, Budgets, Heals, Keys, Inbox    db.Query
	Deliveries, TaskLogs, Dismissals                db.Query
}

// Store purges the rows of all workspaces.
type Store struct {
	db *db.DB
	q  queries
}

// New returns a store.
func New(d *db.DB) (*Store, error) {
	s := &Store{db: d}
	return s, db.Load(files, &s.q)
}

// Retention says how long rows are kept after they have ended.
type Retention struct {
	// Activity also applies to executions, approvals, the logs of tasks that are over and the dismissals of failures
	// that are gone. Usage and daily budgets are kept at least
	// a month, heals at least as long as they may relapse.
	Activity time.Duration
	Events   time.Duration
	Outbox   time.Duration // deliveries of webhooks are kept at least a day longer
	Inbox    time.Duration
}

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

// inboxLonger is how much longer deliveries are kept at least than the outbox rows by which they began: a
// delivery that comes again is known for as long as its row could keep another from being added.
const inboxLonger = 24 * time.Hour

// batch is the most rows of one kind that one round of a purge deletes. The statements contain the
// same number.
const batch = 2000

// Purge runs one round of deletion: at most 2,000 rows of each kind that exceed their retention. It
// reports whether there may be more.
func (s *Store) Purge(ctx context.Context, ws db.Workspace, keep Retention) (more bool, err error) {
	var b db.Batch
	var gone [14]int
	for i, p := range []struct {
		of   db.Query
		keep time.Duration
	}{
		{s.q.Activity, keep.Activity},
		{s.q.Events, keep.Events},
		{s.q.Executions, keep.Activity},
		{s.q.Approvals, keep.Activity},
		{s.q.Outbox, keep.Outbox},
		{s.q.Memories, keep.Outbox},
		{s.q.Usage, keep.usage()},
		{s.q.Budgets, keep.usage()},
		{s.q.Heals, max(keep.Activity, heal.MaxCooldown)},
		{s.q.Keys, 0},
		{s.q.Inbox, max(keep.Inbox, keep.Outbox+inboxLonger)},
		{s.q.Deliveries, keep.Outbox + inboxLonger},
		{s.q.TaskLogs, keep.Activity},
		{s.q.Dismissals, keep.Activity},
	} {
		b.Each(func(scan db.Scan) error { // a row per deletion, or one row with the count
			var n int
			err := scan(&n)
			gone[i] += n
			return err
		}, p.of, p.keep.Milliseconds())
	}
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return false, fmt.Errorf("purge old rows: %w", err)
	}
	return slices.Max(gone[:]) >= batch, nil
}
