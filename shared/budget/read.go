package budget

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Get reads a budget. It returns [ErrNotFound] when there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Budget, error) {
	var found []Budget
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id, nil)
	return db.Found(found, err, "read a budget", ErrNotFound)
}

// Filter narrows a listing. Empty fields have no effect.
type Filter struct {
	Scope   Scope
	ScopeID string
	Active  *bool  // whether the period includes now
	Before  string // the id after which the listing continues
	Limit   int    // at most 200; 50 when zero
}

// List reads budgets, latest first. more says that there are more.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Budget, more bool, err error) {
	if f.Before == "" {
		f.Before = db.LastID
	}
	f.Limit = db.PageSize(f.Limit)
	err = s.db.Each(ctx, ws, collect(&items), s.q.List, db.Null(f.Scope), db.Null(f.ScopeID), f.Active, f.Before, f.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list budgets: %w", err)
	}
	items, more = db.Page(items, f.Limit)
	return items, more, nil
}

// Names returns the names of the projects, milestones, tasks and registered agents that budgets are of, by
// their ids. What is gone has none.
func (s *Store) Names(ctx context.Context, ws db.Workspace, of ...Budget) (map[string]string, error) {
	var ids []string
	for _, b := range of {
		if b.Scope != Global && b.Scope != Skill && len(b.ScopeID) == 36 && uuid.Validate(b.ScopeID) == nil {
			ids = append(ids, b.ScopeID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	names := map[string]string{}
	err := s.db.Each(ctx, ws, db.Put(names, func(scan db.Scan, id, name *string) error {
		return scan(id, name)
	}), s.q.Names, db.Encode(ids))
	if err != nil {
		return nil, fmt.Errorf("read what budgets are of: %w", err)
	}
	return names, nil
}

// By is the key by which usage is grouped.
type By string

// The keys by which usage can be grouped.
const (
	ByAgent     By = "agent"
	BySkill     By = "skill"
	ByModel     By = "model"
	BySurface   By = "surface"
	ByTask      By = "task"
	ByOperation By = "operation"
	ByDay       By = "day" // of UTC
)

// Usage is the usage of all calls with one key.
type Usage struct {
	Key, Other                           string // empty for calls without a task, and Other without a second key
	Calls                                int64
	Input, Output, CacheRead, CacheWrite int64 // tokens
	MicroUSD                             int64
	Unpriced                             int64 // calls with an unknown cost, which MicroUSD leaves out
}

// Total returns the sum of all tokens.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// maxGroups is the largest number of keys in one answer.
const maxGroups = 10_000

// Usage adds up the calls from since until before until; a zero time is no bound. It groups them by one
// key, or by two different ones. The key with the most tokens comes first, or the last day. It returns
// at most 10,000 groups. By skill, a call counts for each skill that its answer asks for, with an equal
// share of its usage, and for (answer) when it asks for none.
func (s *Store) Usage(ctx context.Context, ws db.Workspace, since, until time.Time, by By, other ...By) (out []Usage, err error) {
	since, until = db.Between(since, until)
	second := By("")
	if len(other) > 0 {
		second = other[0]
	}
	swapped := second == BySkill
	if swapped {
		by, second = second, by
	}
	add := db.Append(&out, func(scan db.Scan, u *Usage) error {
		err := scan(&u.Key, &u.Other, &u.Calls, &u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.MicroUSD, &u.Unpriced)
		if swapped {
			u.Key, u.Other = u.Other, u.Key
		}
		return err
	})
	if by == BySkill {
		err = s.db.Each(ctx, ws, add, s.q.UsageBySkill, second, since, until, maxGroups)
	} else {
		err = s.db.Each(ctx, ws, add, s.q.Usage, by, second, since, until, maxGroups)
	}
	if err != nil {
		return nil, fmt.Errorf("add up usage: %w", err)
	}
	return out, nil
}
