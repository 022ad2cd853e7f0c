// Package memory keeps what agents remember: small statements with a category,
// an importance and, where wanted, an end.
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
	ExpiresAt  *time.Time
	CreatedAt  time.Time
}

type queries struct{ Save, Newest db.Query }

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

// Save remembers m and answers its id, and whether it was new: the same content,
// case and spacing aside, is remembered once. The transaction must prove the lane
// of the agent's memory.
func (s *Store) Save(ctx context.Context, tx lane.Tx, m Memory) (id string, isNew bool, err error) {
	if err := tx.Proves(lane.Memory(m.Agent)); err != nil {
		return "", false, fmt.Errorf("save memory: %w", err)
	}
	fresh := s.ids()
	err = tx.One(ctx, []any{&id}, s.q.Save, fresh, m.Agent, m.Category, m.Content, hash(m.Content), m.Importance, db.Null(m.Trace), m.ExpiresAt)
	if err != nil {
		return "", false, fmt.Errorf("save memory: %w", err)
	}
	return id, id == fresh, nil
}

// Newest lists an agent's memories that have not expired, newest first.
func (s *Store) Newest(ctx context.Context, ws db.Workspace, agent string, limit int) ([]Memory, error) {
	var out []Memory
	err := s.db.Each(ctx, ws, func(scan db.Scan) error {
		var m Memory
		var id *trace.ID
		if err := scan(&m.ID, &m.Agent, &m.Category, &m.Content, &m.Importance, &id, &m.ExpiresAt, &m.CreatedAt); err != nil {
			return err
		}
		if id != nil {
			m.Trace = *id
		}
		out = append(out, m)
		return nil
	}, s.q.Newest, agent, limit)
	if err != nil {
		return nil, fmt.Errorf("list memories: %w", err)
	}
	return out, nil
}

// hash is of the content without its case and spacing.
func hash(content string) string {
	folded := strings.ToLower(strings.Join(strings.Fields(content), " "))
	sum := sha256.Sum256([]byte(folded))
	return hex.EncodeToString(sum[:])
}
