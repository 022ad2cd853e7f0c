package objective

import (
	"context"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Status      Status
	MinPriority int
	// Text is searched in title and description. On SQLite, the search is case-sensitive for
	// letters beyond ASCII.
	Text   string
	Before db.Position
	Limit  int // at most 200; 50 when zero
}

var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// List reads objectives without their plans, newest first. more reports whether there are more.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Objective, more bool, err error) {
	f.Limit = db.PageSize(f.Limit)
	var pattern any
	if f.Text != "" {
		pattern = "%" + likeEscapes.Replace(activity.Text(f.Text)) + "%"
	}
	listed := db.Append(&items, func(scan db.Scan, o *Objective) error {
		return scan(append(o.columns(), &o.Progress.Steps, &o.Progress.Done, db.Optional(&o.Progress.Next))...)
	})
	err = s.db.Each(ctx, ws, listed, s.q.List, append(f.Before.Args(db.Null(f.Status), f.MinPriority, pattern), f.Limit+1)...)
	if err != nil {
		return nil, false, fmt.Errorf("list objectives: %w", err)
	}
	items, more = db.Page(items, f.Limit)
	return items, more, nil
}
