package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Span is the time for which an execution had its lane, as far as its row tells.
type Span struct {
	ID        string
	Agent     string
	Surface   trace.Surface
	Trace     trace.ID
	Lane      lane.Name
	Status    Status
	Input     json.RawMessage
	Outcome   string // of a beat
	CreatedAt time.Time
	EndedAt   *time.Time // nil: it goes on
	Live      bool       // somebody holds the lane of its subject now
	Forced    bool       // a person has ended its hold
}

// HistoryFilter narrows a listing of spans. Empty fields have no effect.
type HistoryFilter struct {
	Lane         lane.Name
	Since, Until time.Time // of the beginning
	Before       db.Position
	Limit        int // at most 200; 50 when zero
}

// History lists which executions had which lanes, the latest first. more says that there are more.
func (s *Store) History(ctx context.Context, ws db.Workspace, f HistoryFilter) (items []Span, more bool, err error) {
	f.Since, f.Until = db.Between(f.Since, f.Until)
	f.Limit = db.PageSize(f.Limit)
	err = s.db.Each(ctx, ws, db.Append(&items, func(scan db.Scan, x *Span) error {
		return scan(&x.ID, &x.Agent, &x.Surface, &x.Trace, &x.Lane, &x.Status, &x.Input,
			db.Optional(&x.Outcome), &x.CreatedAt, &x.EndedAt, &x.Live, &x.Forced)
	}), s.q.History, append(f.Before.Args(db.Null(f.Lane), f.Since, f.Until), f.Limit+1)...)
	if err != nil {
		return nil, false, fmt.Errorf("list the history of lanes: %w", err)
	}
	items, more = db.Page(items, f.Limit)
	return items, more, nil
}
