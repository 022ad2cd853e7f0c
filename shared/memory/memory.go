// Package memory stores what agents remember: short statements with a category, an importance and
// optionally an expiry.
//
// An agent writes its memories under the lane memory:{agent}, one statement each. People write
// without a hold: their change applies to the version that was read.
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
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Memory is one remembered statement.
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
	Create, Replace, Patch, Delete          db.Query
	Get, List, Search, Relevant, Categories db.Query
}

// Store stores the memories of all workspaces.
type Store struct {
	db  *db.DB
	q   queries
	ids func() string
}

// New returns a store.
func New(d *db.DB, ids func() string) (*Store, error) {
	s := &Store{db: d, ids: ids}
	return s, db.Load(files, &s.q)
}

// Save stores m. It returns the memory's id, and whether the memory is new. Equal content is stored
// once. Contents are equal if they differ only in case, spacing and final punctuation. The memory
// expires after life, from the database's now. If life is zero, it never expires. The transaction
// must prove the lane of the agent's memory.
func (s *Store) Save(ctx context.Context, tx lane.Tx, m Memory, life time.Duration) (id string, isNew bool, err error) {
	if err := tx.Proves(lane.Memory(m.Agent)); err != nil {
		return "", false, fmt.Errorf("save memory: %w", err)
	}
	fresh := s.ids()
	m.Content = discreet(ctx, m.Content)
	err = tx.One(ctx, []any{&id}, s.q.Save, fresh, m.Agent, m.Category, m.Content, hash(m.Content), m.Importance, db.Null(m.Trace),
		db.Null(life.Milliseconds()))
	if err != nil {
		return "", false, fmt.Errorf("save memory: %w", err)
	}
	return id, id == fresh, nil
}

// discreet returns a text without the secrets that the run or the request knows.
func discreet(ctx context.Context, text string) string {
	return redact.From(ctx).Values().Text(text)
}

// Forget deletes a memory of the agent and reports whether it existed. The transaction must prove
// the lane of the agent's memory.
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

// hash returns a hash of the content without case, spacing, and final stops and commas. A final
// question mark counts.
func hash(content string) string {
	folded := strings.ToLower(strings.Join(strings.Fields(content), " "))
	if said := strings.TrimRight(folded, " .,;:!…。！"); said != "" {
		folded = said
	}
	sum := sha256.Sum256([]byte(folded))
	return hex.EncodeToString(sum[:])
}
