package activity

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Filter narrows a listing. Empty fields have no effect.
type Filter struct {
	Trace   trace.ID
	Skill   string
	Status  Status
	Surface trace.Surface
	Agent   string
	Since   time.Time // inclusive
	Until   time.Time // exclusive
	// Text is searched in skill, error, input and output. On SQLite the case of letters other than
	// ASCII matters.
	Text   string
	Before db.Position
	Limit  int // at most 200; 50 when zero
}

// Page is part of a listing, newest first.
type Page struct {
	Items []Entry
	More  bool // there are older entries
}

// A Reader runs one reading statement. It is an open transaction, or a [db.DB] in a workspace.
type Reader interface {
	Each(ctx context.Context, row func(db.Scan) error, q db.Query, args ...any) error
}

// List reads the log, newest first.
func (l *Log) List(ctx context.Context, ws db.Workspace, f Filter) (Page, error) {
	return l.ListIn(ctx, scoped{l.db, ws}, f)
}

type scoped struct {
	db *db.DB
	ws db.Workspace
}

func (s scoped) Each(ctx context.Context, row func(db.Scan) error, q db.Query, args ...any) error {
	return s.db.Each(ctx, s.ws, row, q, args...)
}

// ListIn is List inside a transaction.
func (l *Log) ListIn(ctx context.Context, r Reader, f Filter) (Page, error) {
	f.Limit = db.PageSize(f.Limit)
	var p Page
	err := r.Each(ctx, collect(&p.Items), l.q.List, append(f.Before.Args(f.arguments()...), f.Limit+1)...)
	if err != nil {
		return Page{}, fmt.Errorf("list activity: %w", err)
	}
	p.Items, p.More = db.Page(p.Items, f.Limit)
	return p, nil
}

// arguments returns the arguments of the part Matches.
func (f Filter) arguments() []any {
	f.Since, f.Until = db.Between(f.Since, f.Until)
	var pattern any
	if f.Text != "" {
		pattern = "%" + likeEscapes.Replace(Text(f.Text)) + "%"
	}
	return []any{db.Null(f.Trace), db.Null(f.Skill), db.Null(f.Status), db.Null(f.Surface), db.Null(f.Agent), f.Since, f.Until, pattern}
}

// MaxStory is the largest number of a trace's entries that are listed.
const MaxStory = 1000

// OfTrace adds a read of a trace's entries to a batch, in order: the first [MaxStory], plus one
// when there are more.
func (l *Log) OfTrace(b *db.Batch, id trace.ID) *[]Entry {
	entries := new([]Entry)
	b.Each(collect(entries), l.q.OfTrace, id, MaxStory+1)
	return entries
}

func collect(into *[]Entry) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, e *Entry) error {
		var usage json.RawMessage
		var ms int64
		if err := scan(&e.ID, &e.Agent, &e.Surface, db.Optional(&e.Skill), db.Optional(&e.SkillID), &e.Status, &e.Input, &e.Output,
			db.Optional(&e.Error), &usage, db.Optional(&e.Model), &e.CostUSD, db.Optional(&ms), &e.Trace, db.Optional(&e.Execution),
			db.Optional(&e.ParentExecution), db.Optional(&e.Attempt), db.Optional(&e.Thread), &e.CreatedAt); err != nil {
			return err
		}
		e.Duration = time.Duration(ms) * time.Millisecond
		if len(usage) > 0 {
			e.Usage = new(Usage)
			if err := json.Unmarshal(usage, e.Usage); err != nil {
				return fmt.Errorf("token usage of activity %s: %w", e.ID, err)
			}
		}
		return nil
	})
}

var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
