package memory

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// Filter narrows a listing. Empty fields match everything.
type Filter struct {
	Agent         string
	Category      string
	MinImportance int
	Expired       bool // includes expired memories
	// Text holds words that the content must contain, all of them and in any order. The last word
	// may be only the beginning of a word. The best match comes first, then the more important
	// memory, then the newer one. Characters other than letters and digits only separate words. A
	// text without words finds nothing. At most 32 words in the first 1,000 bytes are used.
	Text   string
	Before db.Position // without a text: the page before this position, newest first
	Offset int         // with a text
	Limit  int         // at most 200; 50 when zero
}

// List reads memories. more reports whether there are more.
func (s *Store) List(ctx context.Context, ws db.Workspace, f Filter) (items []Memory, more bool, err error) {
	limit := db.PageSize(f.Limit)
	f.Limit = limit + 1
	q, args, ok := s.find(f)
	if !ok {
		return nil, false, nil
	}
	if err := s.db.Each(ctx, ws, collect(&items), q, args...); err != nil {
		return nil, false, fmt.Errorf("list memories: %w", err)
	}
	items, more = db.Page(items, limit)
	return items, more, nil
}

// Search lists an agent's memories that have not expired and contain the words of text, as [Filter]
// says. A category that is not empty must match too. Without a text it lists the newest memories.
func (s *Store) Search(ctx context.Context, tx lane.Tx, agent, text, category string, limit int) ([]Memory, error) {
	q, args, ok := s.find(Filter{Agent: agent, Category: category, Text: text, Limit: limit})
	if !ok {
		return nil, nil
	}
	var out []Memory
	if err := tx.Each(ctx, collect(&out), q, args...); err != nil {
		return nil, fmt.Errorf("search memories: %w", err)
	}
	return out, nil
}

// find returns the statement for a filter and its arguments. ok is false if the filter matches
// nothing.
func (s *Store) find(f Filter) (q db.Query, args []any, ok bool) {
	if f.Text == "" {
		return s.q.List, append(f.Before.Args(db.Null(f.Agent), db.Null(f.Category), f.MinImportance, f.Expired), f.Limit), true
	}
	text, prefix := words(f.Text)
	return s.q.Search, []any{text, prefix, db.Null(f.Agent), db.Null(f.Category), f.MinImportance, f.Expired, f.Limit,
		max(0, f.Offset)}, text != ""
}

// Limits of a query.
const (
	maxText  = 1000 // bytes
	maxWords = 32
)

// words returns the words of a query, separated by one space. prefix reports whether the last may
// be the beginning of a word. It may not if it is a single ASCII letter, which would match too
// much.
func words(text string) (joined string, prefix bool) {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	all := strings.FieldsFunc(strings.ToValidUTF8(text, " "), func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.N, unicode.M)
	})
	if len(all) == 0 {
		return "", false
	}
	all = all[:min(len(all), maxWords)]
	return strings.Join(all, " "), len(all[len(all)-1]) > 1
}

// Newest lists an agent's memories that have not expired, newest first.
func (s *Store) Newest(ctx context.Context, ws db.Workspace, agent string, limit int) ([]Memory, error) {
	out, _, err := s.List(ctx, ws, Filter{Agent: agent, Limit: limit})
	return out, err
}

// Relevant adds a query for the memories that a prompt should contain to a batch: the n most
// important ones of the agent that have not expired. Of equally important ones, the newer come
// first.
func (s *Store) Relevant(b *db.Batch, agent string, n int) *[]Memory {
	found := new([]Memory)
	b.Each(collect(found), s.q.Relevant, agent, n)
	return found
}

// Get reads a memory, even if it has expired. It returns [db.ErrNoRows] if there is none.
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Memory, error) {
	var found []Memory
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id)
	return db.Found(found, err, "read memory", fmt.Errorf("read memory: %w", db.ErrNoRows))
}

// Category is a category and the number of its memories.
type Category struct {
	Name  string
	Count int
}

const maxCategories = 200

// Categories lists the 200 categories with the most memories that have not expired. An empty agent
// means all agents.
func (s *Store) Categories(ctx context.Context, ws db.Workspace, agent string) ([]Category, error) {
	var out []Category
	err := s.db.Each(ctx, ws, db.Append(&out, func(scan db.Scan, c *Category) error {
		return scan(&c.Name, &c.Count)
	}), s.q.Categories, db.Null(agent), maxCategories)
	if err != nil {
		return nil, fmt.Errorf("list the categories of memories: %w", err)
	}
	return out, nil
}

func collect(into *[]Memory) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, m *Memory) error {
		return scan(&m.ID, &m.Agent, &m.Category, &m.Content, &m.Importance, db.Optional(&m.Trace), &m.ExpiresAt, &m.Version,
			&m.CreatedAt, &m.UpdatedAt)
	})
}
