// Package memory keeps what agents remember: small statements with a category,
// an importance and, where wanted, an end.
//
// An agent writes its memories under the lane memory:{agent}, one statement each.
// People write without a hold: their change is one of the version that was read.
package memory

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Memory is one thing remembered.
type Memory struct {
	ID         string
	Agent      string
	Category   string
	Content    string
	Importance int // 1 to 10
	Trace      trace.ID
	ExpiresAt  *time.Time // nil: never
	Version    int        // counts changes
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

type queries struct {
	Save, Unsave, Forget                    db.Query
	Create, Patch, Delete                   db.Query
	Get, List, Search, Relevant, Categories db.Query
}

// Store keeps the memories of all workspaces.
type Store struct {
	db  *db.DB
	q   queries
	ids func() string
}

// New makes a store.
func New(d *db.DB, ids func() string) (*Store, error) {
	s := &Store{db: d, ids: ids}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	return s, nil
}

// Save remembers m and answers its id, and whether it was new: the same content is
// remembered once, whatever its case and spacing and whether it ends in a full stop.
// It lives for life from the database's now on, for ever where that is zero. The
// transaction must prove the lane of the agent's memory.
func (s *Store) Save(ctx context.Context, tx lane.Tx, m Memory, life time.Duration) (id string, isNew bool, err error) {
	if err := tx.Proves(lane.Memory(m.Agent)); err != nil {
		return "", false, fmt.Errorf("save memory: %w", err)
	}
	fresh := s.ids()
	err = tx.One(ctx, []any{&id}, s.q.Save, fresh, m.Agent, m.Category, m.Content, hash(m.Content), m.Importance, db.Null(m.Trace),
		db.Null(life.Milliseconds()))
	if err != nil {
		return "", false, fmt.Errorf("save memory: %w", err)
	}
	return id, id == fresh, nil
}

// Forget deletes a memory of the agent's and reports whether there was one. The
// transaction must prove the lane of the agent's memory.
func (s *Store) Forget(ctx context.Context, tx lane.Tx, agent, id string) (bool, error) {
	if err := tx.Proves(lane.Memory(agent)); err != nil {
		return false, fmt.Errorf("forget memory: %w", err)
	}
	n, err := tx.Exec(ctx, s.q.Forget, agent, id)
	if err != nil {
		return false, fmt.Errorf("forget memory: %w", err)
	}
	return n > 0, nil
}

// hash is of what is said: the content without its case and spacing, and without the
// stops and commas at its end. A question mark counts.
func hash(content string) string {
	folded := strings.ToLower(strings.Join(strings.Fields(content), " "))
	if said := strings.TrimRight(folded, " .,;:!…。！"); said != "" {
		folded = said
	}
	sum := sha256.Sum256([]byte(folded))
	return hex.EncodeToString(sum[:])
}
