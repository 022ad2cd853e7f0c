package task

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Order is the order of a listing.
type Order string

// The orders.
const (
	Newest Order = "-createdAt"
	Oldest Order = "createdAt"
	Urgent Order = "-priority" // the highest priority first, then the oldest
)

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Status                   Status
	MinPriority, MaxPriority int
	Agent, Type, Thread      string
	Project, Milestone       string
	Tags                     []string // a task has all of them
	// Text is searched in title and description. On SQLite, the search is case-sensitive for
	// letters beyond ASCII.
	Text                        string
	CreatedAfter, CreatedBefore time.Time
	Order                       Order
	After                       Place
	Limit                       int
}

// Place is the place of a task in a listing: the listing goes on after it. The zero value is the
// beginning.
type Place struct {
	Priority int // counts in the order [Urgent] only
	At       time.Time
	ID       string
}

const firstUUID = "00000000-0000-0000-0000-000000000000"

var (
	beginning   = time.Unix(0, 0).UTC()
	likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
)

// List reads tasks without their input, output and checkpoint.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) ([]Task, error) {
	if f.MaxPriority == 0 {
		f.MaxPriority = 10
	}
	f.CreatedAfter, f.CreatedBefore = db.Between(f.CreatedAfter, f.CreatedBefore)
	var pattern any
	if f.Text != "" {
		pattern = "%" + likeEscapes.Replace(activity.Text(f.Text)) + "%"
	}
	tags := slices.Compact(slices.Sorted(slices.Values(f.Tags)))
	firstTag := ""
	if len(tags) > 0 {
		firstTag = tags[0]
	}
	q, first := s.q.List, Place{At: db.EndOfTime, ID: db.LastID}
	switch f.Order {
	case Oldest:
		q, first = s.q.ListOldest, Place{At: beginning, ID: firstUUID}
	case Urgent:
		q, first = s.q.ListUrgent, Place{Priority: 10, At: beginning, ID: firstUUID}
	}
	if f.After.ID == "" {
		f.After = first
	}
	args := []any{
		db.Null(f.Status), f.MinPriority, f.MaxPriority, db.Null(f.Agent), db.Null(f.Type), db.Null(f.Thread),
		db.Null(firstTag), len(tags), "," + strings.Join(tags, ",") + ",", pattern,
		f.CreatedAfter, f.CreatedBefore, db.Null(f.Project), db.Null(f.Milestone), f.After.At, f.After.ID,
	}
	if f.Order == Urgent {
		args = append(args, f.After.Priority)
	}
	var found []Task
	if err := s.db.Each(ctx, ws, collect(&found), q, append(args, f.Limit)...); err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return found, nil
}
