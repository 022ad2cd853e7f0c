package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

var (
	// ErrTaken says that the agent already has a memory with this content.
	ErrTaken = errors.New("the agent remembers that already")
	// ErrChanged says that the memory was changed, or deleted, after it was read.
	ErrChanged = errors.New("the memory has been changed meanwhile")
)

// Patch is a change by a person. A nil field stays as it is.
type Patch struct {
	Category   *string
	Content    *string
	Importance *int
	ExpiresAt  *time.Time // the zero time: never
}

// Create adds a memory on behalf of a person, under its id if it has one, and returns the stored one. Errors:
// [skill.InvalidError], [ErrTaken].
func (s *Store) Create(ctx context.Context, tx *db.Tx, m Memory) (Memory, error) {
	m.ID, m.Content = cmp.Or(m.ID, s.ids()), discreet(ctx, m.Content)
	if err := check(&m); err != nil {
		return Memory{}, err
	}
	var written []Memory
	err := tx.Each(ctx, collect(&written), s.q.Create,
		m.ID, m.Agent, m.Category, m.Content, hash(m.Content), m.Importance, db.Null(m.Trace), m.ExpiresAt)
	return db.Found(written, err, "create memory", ErrTaken)
}

// Patch changes a memory that [Store.Get] returned, and returns the stored one. It deletes an expired
// memory of the agent with the same content. Errors: [skill.InvalidError], [ErrChanged], [ErrTaken].
// After ErrTaken the transaction can't be used any more.
func (s *Store) Patch(ctx context.Context, tx *db.Tx, m Memory, p Patch) (Memory, error) {
	db.Patch(&m.Category, p.Category)
	db.Patch(&m.Content, p.Content)
	m.Content = discreet(ctx, m.Content)
	db.Patch(&m.Importance, p.Importance)
	if p.ExpiresAt != nil {
		m.ExpiresAt = p.ExpiresAt
		if p.ExpiresAt.IsZero() {
			m.ExpiresAt = nil
		}
	}
	if err := check(&m); err != nil {
		return Memory{}, err
	}
	var written []Memory
	tx.Later().Exec(s.q.Replace, m.Agent, hash(m.Content), m.ID)
	err := tx.Each(ctx, collect(&written), s.q.Patch, m.ID, m.Version, m.Category, m.Content, hash(m.Content), m.Importance, m.ExpiresAt)
	switch {
	case errors.Is(err, db.ErrUnique):
		return Memory{}, ErrTaken
	case err != nil:
		return Memory{}, fmt.Errorf("change memory: %w", err)
	case len(written) == 0:
		return Memory{}, ErrChanged
	}
	return written[0], nil
}

// Delete deletes a memory, if it has the version that was read; version 0: any. It returns
// [db.ErrNoRows] if there is none.
func (s *Store) Delete(ctx context.Context, tx *db.Tx, id string, version int) error {
	n, err := tx.Exec(ctx, s.q.Delete, id, version)
	if err == nil && n == 0 {
		err = db.ErrNoRows
	}
	if err != nil {
		return fmt.Errorf("delete memory: %w", err)
	}
	return nil
}

// Limits of a memory, in characters.
const (
	MaxAgent    = 255
	MaxCategory = 100
	MaxContent  = 8000
)

// check normalizes a memory to the form that is stored, and validates it.
func check(m *Memory) error {
	bad := &skill.InvalidError{}
	for _, f := range []struct {
		name  string
		text  *string
		limit int
	}{{"agent", &m.Agent, MaxAgent}, {"category", &m.Category, MaxCategory}, {"content", &m.Content, MaxContent}} {
		*f.text = strings.TrimSpace(activity.Text(*f.text))
		if n := utf8.RuneCountInString(*f.text); n < 1 || n > f.limit {
			bad.Fields = append(bad.Fields, problem.Field{Field: f.name, Problem: fmt.Sprintf("must have 1 to %d characters", f.limit)})
		}
	}
	if m.Importance < 1 || m.Importance > 10 {
		bad.Fields = append(bad.Fields, problem.Field{Field: "importance", Problem: "must be 1 to 10"})
	}
	bad.If(!problem.Storable(m.ExpiresAt), "expiresAt", problem.BadTime)
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}
