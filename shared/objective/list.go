package objective

import (
	"context"
	"fmt"
	"strings"
	"time"

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
	Before Position
	Limit  int // at most 200; 50 when zero
}

// Position is the position of an objective in a listing. The zero value is the beginning.
type Position struct {
	At time.Time // when it was created
	ID string
}

const (
	defaultLimit = 50
	maxLimit     = 200
	lastUUID     = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

var (
	endOfTime   = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
)

// List reads objectives without their plans, newest first. more reports whether there are more.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Objective, more bool, err error) {
	if f.Before.ID == "" {
		f.Before = Position{endOfTime, lastUUID}
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	f.Limit = min(f.Limit, maxLimit)
	var pattern any
	if f.Text != "" {
		pattern = "%" + likeEscapes.Replace(activity.Text(f.Text)) + "%"
	}
	listed := db.Append(&items, func(scan db.Scan, o *Objective) error {
		return scan(append(o.columns(), &o.Progress.Steps, &o.Progress.Done, db.Optional(&o.Progress.Next))...)
	})
	err = s.db.Each(ctx, ws, listed, s.q.List, db.Null(f.Status), f.MinPriority, pattern, f.Before.At, f.Before.ID, f.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list objectives: %w", err)
	}
	if len(items) > f.Limit {
		return items[:f.Limit], true, nil
	}
	return items, false, nil
}
